"""The last minute and the minutes before it."""

from gputui.gpus.history import History
from gputui.gpus.reading import GpuReading, Missing


def gpu(utilization, **more):
    return GpuReading("GPU-1", 0, "NVIDIA H100", "h100-80g", 80, utilization=utilization, **more)


def test_each_slot_is_the_mean_of_its_known_samples():
    history = History()
    for second, value in enumerate([10, 20, Missing.UNKNOWN, 30, 100, 100, 50, 50]):
        history.add([gpu(value)], float(second), 0.0)
    assert history.last_minute("GPU-1", 7.0) == [None] * 13 + [20, 75]


def test_unknown_is_not_zero():
    history = History()
    for second in range(12):
        history.add([gpu(0 if second < 4 else Missing.UNKNOWN)], float(second), 0.0)
    assert history.last_minute("GPU-1", 11.0)[-3:] == [0, None, None]


def test_a_gap_shows_as_unknown_and_the_minute_moves_on_without_samples():
    history = History()
    history.add([gpu(40)], 0.0, 0.0)
    history.add([gpu(60)], 13.0, 13.0)
    assert history.last_minute("GPU-1", 13.0)[-4:] == [40, None, None, 60]
    assert history.last_minute("GPU-1", 21.0)[-3:] == [60, None, None]
    assert history.last_minute("GPU-1", 1000.0) == [None] * 15
    assert history.last_minute("GPU-2", 13.0) == [None] * 15


def test_a_minute_is_rolled_up_when_it_is_over():
    history = History()
    ended = []
    for second in range(120, 181):
        reading = gpu(100 if second % 2 else Missing.UNKNOWN, memory_used=second, power=float(second), temperature=50)
        ended += history.add([reading], float(second), float(second))
    [minute] = ended
    assert (minute.uuid, minute.minute, minute.samples) == ("GPU-1", 2, 60)
    assert (minute.utilization, minute.utilization_known, minute.utilization_max) == (100.0, 30, 100)
    assert (minute.memory_used_max, minute.power, minute.temperature_max) == (179, 149.5, 50)


def test_a_clock_set_back_repeats_no_minute():
    history = History()
    ended = []
    for monotonic, wall in [(0, 600), (1, 660), (2, 60), (3, 120), (4, 660), (5, 720)]:
        ended += history.add([gpu(1)], float(monotonic), float(wall))
    assert [minute.minute for minute in ended] == [10, 11]
    assert ended[1].samples == 4
