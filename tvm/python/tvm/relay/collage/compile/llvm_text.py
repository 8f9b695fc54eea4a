# SPDX-License-Identifier: Apache-2.0
"""Functions of vectors as LLVM's text, written down as Python's arithmetic runs over `LlvmValue`s.

TIR has no way to name a float that is used twice: LLVM 22 rejects the debug information that TVM
gives each let-bound one, and an expression written out for each of its uses grows exponentially. In
LLVM's text each value has a name. Test: compile/test_vector_math.py
"""

from __future__ import annotations

import struct
from collections.abc import Callable

_FLOATS = {32: "float", 64: "double"}


# A method of a LlvmValue and another, or a number.
_Method = Callable[["LlvmValue", "LlvmValue | float"], "LlvmValue"]


def _arithmetic(name: str, is_turned: bool = False) -> _Method:
    def method(self: LlvmValue, other: LlvmValue | float) -> LlvmValue:
        one, two = (self._of(other), self) if is_turned else (self, self._of(other))
        return one._new(f"f{name}" if self._kind == "f" else name, two)

    return method


def _bitwise(name: str) -> _Method:
    return lambda self, other: self._new(name, self._of(other))


def _comparison(name: str) -> _Method:
    return lambda self, other: self._compare(f"{'o' if self._kind == 'f' else 's'}{name}", other)


class LlvmValue:
    """A vector of floats, integers or truth values; operators add a line to its function.

    A Python number beside it stands for all lanes. Comparisons and shifts of integers are signed,
    those of floats false where either is NaN.
    """

    def __init__(self, lines: list[str], lanes: int, kind: str, bits: int, text: str) -> None:
        self._lines, self._lanes, self._text = lines, lanes, text
        self._kind, self._bits = kind, bits

    __add__ = _arithmetic("add")
    __sub__ = _arithmetic("sub")
    __rsub__ = _arithmetic("sub", is_turned=True)
    __mul__ = _arithmetic("mul")
    __truediv__ = _arithmetic("div")
    __rtruediv__ = _arithmetic("div", is_turned=True)
    __and__ = _bitwise("and")
    __or__ = _bitwise("or")
    __xor__ = _bitwise("xor")
    __lshift__ = _bitwise("shl")
    __rshift__ = _bitwise("ashr")
    __lt__ = _comparison("lt")
    __gt__ = _comparison("gt")

    def equals(self, other: LlvmValue | float) -> LlvmValue:
        return self._compare("oeq" if self._kind == "f" else "eq", other)

    def above(self, other: int) -> LlvmValue:
        """Compare integers: greater, both without sign."""
        return self._compare("ugt", other)

    def choose(self, yes: LlvmValue | float, no: LlvmValue | float) -> LlvmValue:
        """Select by truth values: the lanes of `yes` where this is true, else those of `no`; one of
        them is a LlvmValue."""
        like = yes if isinstance(yes, LlvmValue) else no
        assert isinstance(like, LlvmValue)
        one, two = like._of(yes), like._of(no)
        return like._named(f"select {self._typed()}, {one._typed()}, {two._typed()}")

    def as_bits(self) -> LlvmValue:
        """Return the integers that hold these floats."""
        return self._convert("bitcast", "i", self._bits)

    def as_floats(self) -> LlvmValue:
        """Return the floats that these integers hold."""
        return self._convert("bitcast", "f", self._bits)

    def widened(self) -> LlvmValue:
        """Convert float32 to float64."""
        return self._convert("fpext", "f", 64)

    def narrowed(self) -> LlvmValue:
        """Round float64 to float32."""
        return self._convert("fptrunc", "f", 32)

    def is_nan(self) -> LlvmValue:
        """Ask the bits: TVM tells LLVM's code generator that no float is a NaN."""
        return (self.as_bits() & 0x7FFFFFFF).above(0x7F800000)

    def _compare(self, how: str, other: LlvmValue | float) -> LlvmValue:
        two = self._of(other)
        text = f"{'fcmp' if self._kind == 'f' else 'icmp'} {how} {self._typed()}, {two._text}"
        return self._named(text, "i", 1)

    def _convert(self, how: str, kind: str, bits: int) -> LlvmValue:
        return self._named(f"{how} {self._typed()} to {_type(self._lanes, kind, bits)}", kind, bits)

    def _new(self, name: str, other: LlvmValue) -> LlvmValue:
        return self._named(f"{name} {self._typed()}, {other._text}")

    def _named(self, text: str, kind: str = "", bits: int = 0) -> LlvmValue:
        name = f"%v{len(self._lines)}"
        self._lines.append(f"{name} = {text}")
        return LlvmValue(
            self._lines, self._lanes, kind or self._kind, bits=bits or self._bits, text=name
        )

    def _of(self, other: LlvmValue | float) -> LlvmValue:
        return other if isinstance(other, LlvmValue) else self._constant(other)

    def _constant(self, number: float) -> LlvmValue:
        """Return a number in all lanes, of this value's type."""
        if self._kind == "i":
            text = str(int(number))
        else:
            if self._bits == 32:
                (number,) = struct.unpack("f", struct.pack("f", number))
            text = f"0x{struct.unpack('Q', struct.pack('d', number))[0]:016X}"  # LLVM's own form
        if self._lanes > 1:
            text = f"splat ({_type(1, self._kind, self._bits)} {text})"
        return LlvmValue(self._lines, self._lanes, self._kind, bits=self._bits, text=text)

    def _typed(self) -> str:
        return f"{_type(self._lanes, self._kind, self._bits)} {self._text}"


def _type(lanes: int, kind: str, bits: int) -> str:
    one = _FLOATS[bits] if kind == "f" else f"i{bits}"
    return one if lanes == 1 else f"<{lanes} x {one}>"


def function_text(name: str, body: Callable[..., LlvmValue], arguments: int, lanes: int) -> str:
    """Return the LLVM function `name` of that many vectors of float32 that computes `body`."""
    lines: list[str] = []
    values = [LlvmValue(lines, lanes, "f", bits=32, text=f"%a{k}") for k in range(arguments)]
    result = body(*values)._typed()
    kind = _type(lanes, "f", 32)
    takes = ", ".join(f"{kind} %a{k}" for k in range(arguments))
    inside = "\n".join(f"  {line}" for line in [*lines, f"ret {result}"])
    # That it reads and writes nothing lets LLVM share equal calls and move them out of loops.
    return f'define {kind} @"{name}"({takes}) memory(none) nounwind willreturn {{\n{inside}\n}}\n'
