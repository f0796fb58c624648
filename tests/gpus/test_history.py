"""The last minute and the minutes before it."""

from gputui.gpus.history import LastMinute, MinuteRollup, Minutes
from gputui.gpus.reading import GpuReading, Missing


def gpu(utilization, uuid="GPU-1", **more):
    return GpuReading(uuid, 0, "NVIDIA H100", "h100-80g", 80, utilization=utilization, **more)


def test_each_slot_is_the_mean_of_its_known_samples():
    history = LastMinute()
    for second, value in enumerate([10, 20, Missing.UNKNOWN, 30, 100, 100, 50, 50]):
        history.add([gpu(value)], float(second))
    assert history.of("GPU-1", 7.0) == [None] * 13 + [20, 75]


def test_unknown_is_not_zero():
    history = LastMinute()
    for second in range(12):
        history.add([gpu(0 if second < 4 else Missing.UNKNOWN)], float(second))
    assert history.of("GPU-1", 11.0)[-3:] == [0, None, None]


def test_a_gap_shows_as_unknown_and_the_minute_moves_on_without_samples():
    history = LastMinute()
    history.add([gpu(40)], 0.0)
    history.add([gpu(60)], 13.0)
    assert history.of("GPU-1", 13.0)[-4:] == [40, None, None, 60]
    assert history.of("GPU-1", 21.0)[-3:] == [60, None, None]
    assert history.of("GPU-1", 1000.0) == [None] * 15
    assert history.of("GPU-2", 13.0) == [None] * 15


def test_a_minute_is_rolled_up_when_it_is_over():
    minutes = Minutes()
    for second in range(120, 180):
        reading = gpu(100 if second % 2 else Missing.UNKNOWN, memory_used=second, power=float(second))
        minutes.add([reading, gpu(Missing.UNSUPPORTED, "GPU-2")], float(second))
    assert minutes.take(179.9) == []
    assert minutes.take(180.0) == [
        MinuteRollup("GPU-1", 2, 100.0, 100, 149.5, 179, 149.5),
        MinuteRollup("GPU-2", 2, None, None, None, None, None),
    ]
    assert minutes.take(300.0) == []


def test_the_last_minute_of_a_gpu_that_vanished_is_not_lost():
    minutes = Minutes()
    minutes.add([gpu(10), gpu(20, "GPU-2")], 59.0)
    minutes.add([gpu(30)], 60.0)
    assert [(one.uuid, one.minute) for one in minutes.take(121.0)] == [("GPU-1", 0), ("GPU-2", 0), ("GPU-1", 1)]


def test_a_clock_set_back_ends_the_minute_it_was_in():
    minutes = Minutes()
    for wall in (600.0, 660.0, 60.0, 61.0, 120.0):
        minutes.add([gpu(1)], wall)
    assert [one.minute for one in minutes.take(180.0)] == [10, 11, 1, 2]
