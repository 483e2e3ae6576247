"""Find the places of a Python file where one small change makes a mutant."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

Node = TypeVar("Node", bound=ast.AST)
#: Name of a change, the node that it replaces, and the replacement.
Changes = Iterator[tuple[str, Any, ast.AST]]


class Site(NamedTuple):
    """One mutant: the characters from ``start`` to ``end`` of a file become ``text``."""

    path: str  # from the root of the project
    line: int
    function: str  # qualified name of the outermost function around it, "<module>" outside of all functions
    operator: str
    start: int
    end: int
    text: str

    def applied(self, source: str) -> str:
        """Return the source of the mutant."""
        return source[: self.start] + self.text + source[self.end :]


_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_PAIRS = (
    *(("min", "max"), ("any", "all"), ("minimum", "maximum"), ("argmin", "argmax"), ("floor", "ceil")),
    *(("bisect_left", "bisect_right"), ("append", "extend"), ("cumsum", "cumprod"), ("startswith", "endswith")),
    *(("zeros", "ones"), ("isfinite", "isnan"), ("union", "intersection")),
)
_TWINS = dict([*_PAIRS, *((right, left) for left, right in _PAIRS)])
#: Calls and keywords whose arguments people read, or that only type checkers do.
_SHOWN = {"print", "TypeVar", "cast", "NamedTuple", "warn", "add_argument", "add_parser"}
_WORDS = {"strict", "help", "description", "metavar", "stacklevel"}


def sites(source: str, path: str) -> list[Site]:
    """Return all mutants of a file: none in docstrings, messages, annotations, decorators, scripts."""
    return list(_Finder(source, path).found(ast.parse(source)))


class _Finder:
    """Walks a file and yields its mutants."""

    def __init__(self, source: str, path: str) -> None:
        self.path = path
        lines = source.split("\n")
        self.bytes = [line.encode() for line in lines]
        self.starts = [0]
        for line in lines:
            self.starts.append(self.starts[-1] + len(line) + 1)

    def at(self, line: int, column: int) -> int:
        """Return the index of a place: syntax trees count columns in bytes."""
        return self.starts[line - 1] + len(self.bytes[line - 1][:column].decode())

    def found(self, node: ast.AST, scope: tuple[str, ...] = (), inside: bool = False) -> Iterator[Site]:
        """Yield the mutants of a node and of what it consists of; ``inside`` a function or not."""
        name = ".".join(scope) if inside else "<module>"
        for kind, change in _CHANGES:
            if isinstance(node, kind):
                for operator, old, new in change(node):
                    text = f"({ast.unparse(new)})" if isinstance(old, ast.expr) else ast.unparse(new)
                    start, end = self.at(old.lineno, old.col_offset), self.at(old.end_lineno, old.end_col_offset)
                    yield Site(self.path, old.lineno, name, operator, start, end, text)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not inside:
            scope, inside = (*scope, node.name), not isinstance(node, ast.ClassDef)
        for child in _parts(node):
            yield from self.found(child, scope, inside)


def _parts(node: ast.AST) -> list[ast.AST]:
    """Return the children that decide what a program does."""
    match node:
        case ast.JoinedStr() | ast.Raise() | ast.Assert():
            return []
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in _SHOWN:
            return []
        case ast.Call():
            return [node.func, *node.args, *(word for word in node.keywords if word.arg not in _WORDS)]
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return [*node.args.defaults, *(default for default in node.args.kw_defaults if default), *node.body]
        case ast.ClassDef():
            return [*node.body]
        case ast.AnnAssign():
            return [node.value] if node.value else []
        case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Compare(left=ast.Name(id="__name__"))):
            return []
        case ast.Import() | ast.ImportFrom() | ast.Constant():
            return []
    return list(ast.iter_child_nodes(node))


def _with(node: Node, **fields: object) -> Node:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _replaced(items: list, at: int, *by: object) -> list:
    return [*items[:at], *by, *items[at + 1 :]]


def _comparison(node: ast.Compare) -> Changes:
    for at, old in enumerate(node.ops):
        for new in _COMPARISONS[type(old)]:
            yield f"{type(old).__name__} to {new.__name__}", node, _with(node, ops=_replaced(node.ops, at, new()))


def _arithmetic(node: ast.BinOp) -> Changes:
    if type(node.op) in _ARITHMETIC and not any(_is_text(side) or _is_type(side) for side in (node.left, node.right)):
        new = _ARITHMETIC[type(node.op)]
        yield f"{type(node.op).__name__} to {new.__name__}", node, _with(node, op=new())


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _is_type(node: ast.AST) -> bool:
    """Tell a type, as in ``int | None``, by its name."""
    name = ast.unparse(node).rpartition(".")[2]
    return name in ("None", "int", "float", "str", "bytes", "bool", "dict", "list", "tuple") or name.istitle()


def _sum_in_place(node: ast.AugAssign) -> Changes:
    if type(node.op) in _ARITHMETIC and not isinstance(node.value, ast.JoinedStr):
        new = _ARITHMETIC[type(node.op)]
        yield f"{type(node.op).__name__} to {new.__name__}", node, _with(node, op=new())
    yield "statement dropped", node, ast.Pass()


def _junction(node: ast.BoolOp) -> Changes:
    new = ast.Or if isinstance(node.op, ast.And) else ast.And
    yield f"{type(node.op).__name__} to {new.__name__}", node, _with(node, op=new())
    for at in range(len(node.values)):
        left = _replaced(node.values, at)
        yield "operand dropped", node, left[0] if len(left) == 1 else _with(node, values=left)


def _sign(node: ast.UnaryOp) -> Changes:
    if not isinstance(node.op, ast.UAdd):
        yield f"{type(node.op).__name__} dropped", node, node.operand


def _constant(node: ast.Constant) -> Changes:
    if isinstance(node.value, bool):
        yield "constant", node, ast.Constant(not node.value)
    elif isinstance(node.value, int):
        yield "constant + 1", node, ast.Constant(node.value + 1)
        yield "constant - 1", node, ast.Constant(node.value - 1)
    elif isinstance(node.value, float):
        yield "constant", node, ast.Constant(node.value * 2 if node.value else 1.0)


def _condition(node: ast.If | ast.IfExp | ast.While) -> Changes:
    if not isinstance(node.test, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant):
        negated = ast.UnaryOp(ast.Not(), node.test)
        yield "condition negated", node.test, negated


def _call(node: ast.Call) -> Changes:
    match node.func:
        case ast.Name(id=name) if name in _TWINS:
            yield f"{name} to {_TWINS[name]}", node, _with(node, func=ast.Name(_TWINS[name]))
        case ast.Attribute(attr=name) if name in _TWINS:
            yield f"{name} to {_TWINS[name]}", node, _with(node, func=_with(node.func, attr=_TWINS[name]))
        case ast.Name(id=name) if name in _SHOWN:
            return
        case ast.Attribute(attr=name) if name in _SHOWN:
            return
        case ast.Name(id="sorted" | "reversed" | "sum" | "abs") if len(node.args) == 1 and not node.keywords:
            yield (
                "call dropped",
                node,
                node.args[0] if node.func.id != "sum" else ast.Call(ast.Name("len"), node.args, []),
            )
    for at, word in enumerate(node.keywords):
        if word.arg and word.arg not in _WORDS:
            yield "argument dropped", node, _with(node, keywords=_replaced(node.keywords, at))


def _slice(node: ast.Subscript) -> Changes:
    if isinstance(node.slice, ast.Slice):
        for side in ("lower", "upper", "step"):
            if bound := getattr(node.slice, side):
                yield "slice open", node, _with(node, slice=_with(node.slice, **{side: None}))
                later = ast.BinOp(bound, ast.Add(), ast.Constant(1))
                yield "slice + 1", node, _with(node, slice=_with(node.slice, **{side: later}))


def _filter(node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> Changes:
    for at, part in enumerate(node.generators):
        for which in range(len(part.ifs)):
            fewer = _with(part, ifs=_replaced(part.ifs, which))
            yield "filter dropped", node, _with(node, generators=_replaced(node.generators, at, fewer))


def _statement(node: ast.Expr) -> Changes:
    call = node.value
    if isinstance(call, ast.Yield | ast.YieldFrom | ast.Await):
        yield "statement dropped", node, ast.Pass()
    if isinstance(call, ast.Call):
        name = getattr(call.func, "id", getattr(call.func, "attr", ""))
        if name not in _SHOWN:
            yield "statement dropped", node, ast.Pass()


def _assignment(node: ast.Assign) -> Changes:
    if all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
        yield "statement dropped", node, ast.Pass()


def _answer(node: ast.Return) -> Changes:
    if node.value and not (isinstance(node.value, ast.Constant) and node.value.value is None):
        yield "return None", node, ast.Return(ast.Constant(None))


def _jump(node: ast.Break | ast.Continue) -> Changes:
    yield "statement dropped", node, ast.Pass()
    yield "break and continue swapped", node, ast.Continue() if isinstance(node, ast.Break) else ast.Break()


def _raise(node: ast.Raise) -> Changes:
    yield "statement dropped", node, ast.Pass()


_CHANGES: tuple[tuple[type | tuple[type, ...], Callable[..., Changes]], ...] = (
    (ast.Compare, _comparison),
    (ast.BinOp, _arithmetic),
    (ast.AugAssign, _sum_in_place),
    (ast.BoolOp, _junction),
    (ast.UnaryOp, _sign),
    (ast.Constant, _constant),
    ((ast.If, ast.IfExp, ast.While), _condition),
    (ast.Call, _call),
    (ast.Subscript, _slice),
    ((ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp), _filter),
    (ast.Expr, _statement),
    (ast.Assign, _assignment),
    (ast.Return, _answer),
    ((ast.Break, ast.Continue), _jump),
    (ast.Raise, _raise),
)
