"""Man pages, from the help of the programs and the tables of the documents."""

import re

SECTION_NAMES = {5: "File formats", 8: "System administration", 1: "User commands"}


def plain(markdown):
    """Returns the text of a cell or a paragraph without the marks of Markdown."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", markdown)
    return text.replace("\\|", "|").replace("`", "").replace("**", "")


def roff(text):
    """Escapes text: backslashes, hyphens, leading control characters, and characters beyond ASCII."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = "".join(c if ord(c) < 128 else f"\\[u{ord(c):04X}]" for c in text)
    return "\n".join("\\&" + line if line[:1] in (".", "'") else line for line in text.split("\n"))


def section_of(document, heading):
    """Returns the lines below a heading of a Markdown document, up to the next heading of its level."""
    mark = heading.split(" ")[0] + " "
    lines = document.split("\n")
    start = lines.index(heading) + 1
    end = next((i for i in range(start, len(lines)) if lines[i].startswith(mark)), len(lines))
    return lines[start:end]


def rows_of(lines):
    """Returns the cells of the table rows among the lines, without the heads of the tables."""
    rows = []
    for index, line in enumerate(lines):
        if not line.startswith("|") or line.startswith("|---"):
            continue
        if index + 1 < len(lines) and lines[index + 1].startswith("|---"):
            continue
        rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return rows


class Page:
    def __init__(self, name, section, title, release, date):
        self.name, self.section = name, section
        head = [name.upper(), str(section), date, release, SECTION_NAMES[section]]
        self.lines = [".TH " + " ".join(f'"{roff(word)}"' for word in head), ".ad l", ".nh"]
        self.heading("NAME")
        self.lines.append(f"{roff(name)} \\- {roff(title)}")

    @property
    def text(self):
        return "\n".join(self.lines) + "\n"

    def heading(self, text):
        self.lines.append(f'.SH "{roff(text)}"')

    def paragraphs(self, text):
        """Adds paragraphs. Lines with a deep indent stay as they are."""
        for block in re.split(r"\n\s*\n", text.strip("\n")):
            if re.search(r"^ {2,}\S", block, re.M):
                self.lines += [".PP", ".nf", roff(block), ".fi"]
            else:
                self.lines += [".PP", roff(block)]

    def entry(self, term, *texts):
        self.lines += [".TP", f"\\fB{roff(term)}\\fR", roff(texts[0] or " ")]
        for text in texts[1:]:
            self.lines += [".br", roff(text)]

    def markdown(self, lines):
        """Adds the prose and the tables of a section."""
        prose = []

        def flush():
            if prose:
                self.lines += [".PP", roff(plain(" ".join(prose)))]
                prose.clear()

        for index, line in enumerate(lines):
            if line.startswith(("## ", "### ")):
                flush()
                self.lines.append(f'.SS "{roff(line.lstrip("#").strip())}"')
            elif line.startswith("<!--") or not line.strip():
                flush()
            elif line.startswith("|"):
                flush()
                for row in rows_of(lines[index : index + 1] if not lines[index + 1 : index + 2] or not lines[index + 1].startswith("|---") else []):
                    self.entry(plain(row[0]), *[plain(cell) for cell in row[1:] if cell])
            else:
                prose.append(line.strip())
        flush()


def option_term(argument):
    names = [("--" if name["kind"] == "long" else "-") + name["name"] for name in argument.get("names", [])]
    value = argument.get("valueName", "value")
    if argument["kind"] == "positional":
        return f"<{value}>"
    return ", ".join(names) + (f" <{value}>" if argument["kind"] == "option" else "")


def add_command(page, command):
    """Adds description and options of a call, as its help shows them."""
    page.heading("DESCRIPTION")
    page.paragraphs(command.get("abstract", ""))
    page.paragraphs(command.get("discussion", ""))
    arguments = [a for a in command.get("arguments", []) if a.get("shouldDisplay", True)]
    if arguments:
        page.heading("OPTIONS")
        for argument in arguments:
            default = argument.get("defaultValue")
            text = argument.get("abstract", "") + (f" (default: {default})" if default else "")
            page.entry(option_term(argument), text)


def synopsis(command, name):
    words = [name]
    for argument in command.get("arguments", []):
        if not argument.get("shouldDisplay", True) or argument.get("preferredName", {}).get("name") in ("help", "version"):
            continue
        term = option_term(argument).split(", ")[-1]
        if argument.get("isRepeating"):
            term += " ..."
        words.append(f"[{term}]" if argument.get("isOptional") else term)
    return " ".join(words)


def first_sentence(text):
    return text.rstrip(".").split(". ")[0].replace("\n", " ")
