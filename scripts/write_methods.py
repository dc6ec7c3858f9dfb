"""Print docs/methods.md from the registered methods, so that an option is written only once."""

import inspect

from thalweg.methods.registry import Method, list_methods, options


def page() -> str:
    """All methods, each with its formula, what it costs, what it guarantees and its options."""
    intro = (
        "# Methods\n\nWritten by `make docs` from the files in `src/thalweg/methods`. Rows are receiving "
        "tokens, columns giving ones. Every option is a keyword of `thalweg.explain` and a flag of `thalweg explain`."
    )
    return "\n\n".join([intro, *(section(one) for one in list_methods().values())]) + "\n"


def section(method: Method) -> str:
    lines = [
        f"## {method.name}",
        "",
        inspect.cleandoc(method.function.__doc__ or ""),
        "",
        f"*Paper*: {method.paper}. *Cost*: {method.cost}. *Guarantee*: {method.guarantee}.",
    ]
    listed = options(method.params)
    if listed:
        lines += ["", "| option | default | expected | meaning |", "| --- | --- | --- | --- |"]
        cells = [(f"`{o.name}`", str(o.default), o.choices, o.meaning) for o in listed]
        lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells]
    return "\n".join(lines)


if __name__ == "__main__":
    print(page(), end="")
