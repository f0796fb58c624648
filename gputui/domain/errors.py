"""The two ways in which a request is turned down, each one plain sentence."""


class InputError(ValueError):
    """Bad input: the field, the value as given, and what to write instead. Changes nothing; exit code 2."""

    def __init__(self, field: str, value: object, remedy: str) -> None:
        self.field = field
        self.value = value
        self.remedy = remedy
        super().__init__(self.sentence)

    @property
    def sentence(self) -> str:
        """One sentence that names the field, the value (cut at 80 characters) and the remedy."""
        try:
            shown = repr(self.value)
        except ValueError:  # Python writes out no integer of more than 4,300 digits
            shown = "a number of thousands of digits"
        if len(shown) > 80:
            shown = shown[:77] + "..."
        return f"{self.field} is {shown}: {self.remedy}"


class Refused(Exception):  # noqa: N818 - a refusal is an answer, not a fault
    """A well-formed request that the present state does not allow; exit code 1.

    `code` is one of `gputui.protocol.ErrorCode`'s values, so that scripts can tell refusals apart.
    """

    def __init__(self, code: str, sentence: str) -> None:
        self.code = code
        self.sentence = sentence
        super().__init__(sentence)
