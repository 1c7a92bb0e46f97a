# SPDX-License-Identifier: Apache-2.0
#
# awk -v out=DIR -v version=X.Y.Z -f headers.awk -f pages.awk HEADER...: write DIR/NAME.3, in
# man(7), for every function and type of the headers. Declarations with one comment share a page;
# the other names point to it.
#
# A comment has prose; "argument  text"; and sentences that begin with "Returns", "Ownership:",
# "Threads:" or "Blocks:" and reach to the end of their paragraph. Lines indented by two spaces are
# code, but after an argument they continue its text. Anything else is an error.

function fail(text) {
    print "pages.awk: " header ": " text > "/dev/stderr"
    failed = 1
    exit 1
}

# ---- What the headers declare ----

# Record a declaration of the current block.
function take_declaration(text,    name) {
    name = text
    if (text ~ /^typedef (struct|union) [a-z_0-9]+ [a-z_0-9]+;/) {
        sub(/;.*/, "", name)
        sub(/.* /, "", name)
        opaque[name] = 1
        return
    }
    if (text ~ /^#define/) {
        sub(/^#define /, "", name)
        sub(/[^A-Z_0-9].*/, "", name)
        constant[name] = 1
        return
    }
    if (text ~ /^(struct|enum|union) [A-Za-z_0-9]+;/)
        return
    if (text ~ /^typedef (struct|enum|union) .*[{].*[}] [a-z_0-9]+;$/) {
        sub(/;$/, "", name)
        sub(/.* /, "", name)
    } else if (text ~ /^[a-z].*[(].*[)];$/) {
        sub(/[(].*/, "", name) # "typedef void (*mr_x)(...)" has its name inside the first brackets
        if (name ~ /^typedef .* $/) {
            name = text
            sub(/^[^(]*[(][*]/, "", name)
            sub(/[)].*/, "", name)
        }
        sub(/.*[ *]/, "", name)
    } else {
        fail("not understood: " text)
    }
    if (name !~ /^mr_[a-z_0-9]+$/)
        fail("no name that begins with mr_: " text)
    if (name in page_of)
        fail(name " is declared twice")
    page_of[name] = n_pages + 1
    names[n_pages + 1] = names[n_pages + 1] (names[n_pages + 1] ? " " : "") name
    declarations[n_pages + 1] = declarations[n_pages + 1] text SUBSEP
}

function take_block(comment, code,    lines, n, i, text, depth, line) {
    n = split(code, lines, "\n")
    for (i = 1; i <= n; i++) {
        line = lines[i]
        if (text == "" && line ~ /^\/\*.*\*\/$/ || text == "" && line == "")
            continue
        text = text (text == "" ? "" : "\n") line
        depth += gsub(/[{]/, "{", line) - gsub(/[}]/, "}", line)
        if (depth == 0 && (text ~ /^#/ ? line !~ /\\$/ : line ~ /;$/)) {
            take_declaration(text)
            text = ""
        }
    }
    if (text != "")
        fail("does not end: " text)
    if (declarations[n_pages + 1] == "")
        return
    if (comment == "")
        fail("no comment: " names[n_pages + 1])
    comments[++n_pages] = comment
    header_of[n_pages] = header
}

# ---- Text ----

# Plain text as man(7), without a font.
function escape(text,    result, c, i) {
    result = ""
    for (i = 1; i <= length(text); i++) {
        c = substr(text, i, 1)
        if (c == "\\")
            c = "\\e"
        else if (c == "-")
            c = "\\-"
        else if (c == "^")
            c = "\\(ha"
        else if (c == "~")
            c = "\\(ti"
        result = result c
    }
    return result
}

# A line of code: quotation marks stay straight.
function literal(text) {
    text = escape(text)
    gsub(/'/, "\\(aq", text)
    gsub(/`/, "\\(ga", text)
    return guard(text)
}

# A line of text, protected so that its first character does not make it a request.
function guard(text) {
    return (text ~ /^[.']/ ? "\\&" : "") text
}

# Prose: `commands`, functions, constants and types in bold. Names that have a page are added to SEE
# ALSO.
function markup(text,    result, word, parts, n, i) {
    result = ""
    while (match(text, /[A-Za-z_][A-Za-z_0-9]*([(][)])?/)) {
        word = substr(text, RSTART, RLENGTH)
        result = result escape(substr(text, 1, RSTART - 1))
        text = substr(text, RSTART + RLENGTH)
        if (word ~ /^mr_.*[(][)]$/) {
            sub(/[(][)]/, "", word)
            if (!(word in page_of))
                fail("the comment of " names[page] " names " word "(), which no header declares")
            refer(word)
            word = "\\fB" word "\\fR" (page_of[word] == page ? "()" : "(3)")
        } else if (word in page_of) {
            refer(word)
            word = "\\fB" word "\\fR"
        } else if (word ~ /^MR_[A-Z_0-9]+$/) {
            word = "\\fB" word "\\fR"
        }
        result = result word
    }
    n = split(result escape(text) " ", parts, "`")
    if (n % 2 == 0)
        fail("the comment of " names[page] " has a ` without another in its line")
    result = parts[1]
    for (i = 2; i <= n; i++)
        result = result (i % 2 ? "\\fR" : "\\fB") parts[i]
    sub(/ $/, "", result)
    return guard(result)
}

function refer(name) {
    if (page_of[name] != page && !(name in referred)) {
        referred[name] = 1
        see_also = see_also "\\fB" name "\\fR(3),\n"
    }
}

# Add the functions and types that use a type to SEE ALSO, at most six.
function refer_users(type,    i, users, n) {
    for (i = 1; i <= n_pages; i++)
        if (i != page && declarations[i] ~ "(^|[^a-z_0-9])" type "[^a-z_0-9]")
            users[++n] = names[i]
    for (i = 1; i <= n && n <= 6; i++) {
        sub(/ .*/, "", users[i])
        refer(users[i])
    }
}

# ---- A comment ----

function begin_paragraph(section) {
    if (in_argument[section] || (section in sections && new_paragraph))
        sections[section] = sections[section] ".PP\n"
    in_argument[section] = 0
}

function add_prose(section, text) {
    if (new_paragraph || (in_argument[section] && !argument))
        begin_paragraph(section)
    new_paragraph = 0
    sections[section] = sections[section] markup(text) "\n"
}

# A line of prose. A section may begin in it after the end of a sentence.
function take_prose(line,    pieces, n, i, text, both) {
    gsub(/[.] (Returns|Ownership:|Threads:|Blocks:|Threads, Blocks:) /, ".\n&", line)
    n = split(line, pieces, "\n")
    for (i = 1; i <= n; i++) {
        text = pieces[i]
        sub(/^[.] /, "", text)
        if (text ~ /^(Returns|Ownership:|Threads:|Blocks:|Threads, Blocks:) /) {
            argument = 0
            both = text ~ /^Threads, /
            current = text ~ /^R/ ? "RETURN VALUE" : text ~ /^O/ ? "OWNERSHIP" : \
                      text ~ /^T/ ? "THREADS" : "BLOCKS"
            sub(/^(Returns|Ownership:|Threads:|Blocks:|Threads, Blocks:) /, "", text)
            if (text ~ /^[a-z]+([ ,.;:]|$)/)
                text = toupper(substr(text, 1, 1)) substr(text, 2)
            if (both)
                add_prose("BLOCKS", text)
        }
        if (text ~ /(Ownership|Threads|Blocks): / || text ~ /^(Returns|returns) and blocks /)
            fail("the comment of " names[page] " has a label inside a sentence: " text)
        add_prose(current, text)
    }
}

# The summary for the NAME section: the first sentence, up to a colon or semicolon.
function summarize(comment,    text) {
    text = comment
    gsub(/\n/, " ", text)
    sub(/^ +/, "", text)
    if (match(text, /[.:;]( |$)/))
        text = substr(text, 1, RSTART - 1)
    if (text ~ /^[A-Z][a-z ]/)
        text = tolower(substr(text, 1, 1)) substr(text, 2)
    return escape(text)
}

function take_comment(comment,    lines, n, i, line, in_code) {
    n = split(comment, lines, "\n")
    current = "DESCRIPTION"
    argument = new_paragraph = 0
    for (i = 1; i <= n; i++) {
        line = lines[i]
        if (argument && line ~ /^  +[^ ]/)
            sub(/^ +/, "", line) # continues the argument's text
        if (line ~ /^  +[^ ]/) {
            if (!in_code)
                sections[current] = sections[current] ".PP\n.nf\n"
            in_code = 1
            sections[current] = sections[current] literal(line) "\n"
            continue
        }
        if (in_code)
            sections[current] = sections[current] ".fi\n"
        if (line == "" || in_code) {
            current = "DESCRIPTION"
            new_paragraph = 1
            argument = in_code = 0
        }
        if (line ~ /^[a-z_0-9]+  +[^ ]/) {
            current = "DESCRIPTION"
            argument = in_argument[current] = 1
            new_paragraph = 0
            sections[current] = sections[current] ".TP\n.I " \
                                substr(line, 1, index(line, " ") - 1) "\n"
            sub(/^[a-z_0-9]+ +/, "", line)
        }
        if (line != "")
            take_prose(line)
    }
    if (in_code)
        sections[current] = sections[current] ".fi\n"
}

# ---- A declaration ----

# A prototype in bold with its arguments in italics, broken at its commas before column 76.
function print_prototype(text,    parts, n, i, line, indent) {
    gsub(/\n */, " ", text)
    sub(/ MR_PRINTF[(][0-9, ]*[)]/, "", text)
    indent = match(text, /[(]/)
    if (indent > 36)
        indent = 8
    n = split(text, parts, ", ")
    line = parts[1]
    for (i = 2; i <= n; i++)
        if (length(line) + length(parts[i]) + 2 > 74) {
            print_code_line(line ",")
            line = sprintf("%" indent "s%s", "", parts[i])
        } else {
            line = line ", " parts[i]
        }
    print_code_line(line)
}

function print_code_line(text,    result) {
    result = "\\fB"
    while (match(text, /[a-z_0-9]+(\[\])?[,)]/)) {
        result = result literal(substr(text, 1, RSTART - 1)) "\\fI" \
                 literal(substr(text, RSTART, RLENGTH - 1)) "\\fB"
        text = substr(text, RSTART + RLENGTH - 1, 1) substr(text, RSTART + RLENGTH)
        result = result substr(text, 1, 1)
        text = substr(text, 2)
    }
    print result literal(text) "\\fR" > file
}

# Print the members of a struct or an enum with their comments. A comment on separate lines is a
# paragraph, or a heading if it does not end as a sentence.
function print_members(text,    is_enum, member, comment, own_line) {
    is_enum = text ~ /^typedef enum/
    sub(/^[^{]*[{]/, "", text)
    sub(/[}][^}]*$/, "", text)
    if (text ~ /[{}]/)
        fail("a type inside " names[page] " has members of its own")
    print (is_enum ? ".SH VALUES" : ".SH FIELDS") > file
    own_line = 1
    while (text !~ /^[ \n]*$/) {
        if (match(text, /^[ \n]*\/\*/)) {
            own_line = own_line || substr(text, 1, RLENGTH) ~ /\n/
            text = substr(text, RLENGTH + 1)
            comment = substr(text, 1, index(text, "*/") - 1)
            text = substr(text, index(text, "*/") + 2)
            gsub(/\n *([*] )?/, " ", comment)
            sub(/^[* ]+/, "", comment)
            sub(/ +$/, "", comment)
            print ((own_line ? (comment ~ /[.:;]$/ ? ".PP\n" : ".SS ") : "") markup(comment)) > file
            continue
        }
        if (!match(text, is_enum ? "^[^,/]+,?" : "^[^;]*;"))
            fail("the members of " names[page] " are not understood: " text)
        member = substr(text, 1, RLENGTH)
        text = substr(text, RLENGTH + 1)
        own_line = 0
        gsub(/[ \n]+/, " ", member)
        sub(/^ /, "", member)
        sub(/ ?[,;]? *$/, "", member)
        print ".TP\n.B " literal(member) > file
        markup(member) # adds its types to SEE ALSO
    }
}

function print_page(    list, n, i, j, each, n_each, text, handle, status) {
    n = split(names[page], list, " ")
    header = header_of[page]
    file = out "/" list[1] ".3"
    split("", sections)
    split("", in_argument)
    split("", referred)
    see_also = handle = status = ""
    text = names[page]
    gsub(/ /, ", ", text)
    take_comment(comments[page])

    print ".\\\" Made from " header_name(header) ".h by docs/man/pages.awk." > file
    print ".TH " list[1] " 3 \"" date "\" \"millrace " version "\" \"millrace manual\"" > file
    print ".nh\n.ad l" > file
    print ".SH NAME\n" text " \\- " summarize(comments[page]) > file
    print ".SH SYNOPSIS\n.nf\n.B #include <millrace/" umbrella[header_name(header)] ".h>" > file
    n_each = split(declarations[page], each, SUBSEP) - 1
    for (i = 1; i <= n_each; i++) {
        text = each[i]
        if (!index(text, "{")) {
            print (i == 1 ? ".PP" : "") > file
            print_prototype(text)
            for (j in opaque)
                if (text ~ "[(](const )?" j " [*][a-z]")
                    handle = substr(j, 4)
            if (text ~ /^mr_status /)
                status = 1
            sub(/[(].*/, "", text) # the types of arguments are added to SEE ALSO
            markup(substr(each[i], length(text) + 1))
        } else if (toupper(list[i]) "_INIT" in constant) {
            print ".PP\n.BI \"" list[i] " \" name \" = " toupper(list[i]) "_INIT;\"" > file
        }
    }
    print ".fi\n.PP\nLink with \\fBpkg\\-config \\-\\-libs " \
          literal(library[umbrella[header_name(header)]]) "\\fR." > file
    print ".SH DESCRIPTION" > file
    printf "%s", sections["DESCRIPTION"] > file
    for (i = 1; i <= n_each; i++)
        if (index(each[i], "{"))
            print_members(each[i])
    if (status && !("RETURN VALUE" in sections))
        sections["RETURN VALUE"] = \
            markup("A status: 0 is success, a negative status a failure; see mr_status.") "\n"
    if (handle && !("THREADS" in sections))
        sections["THREADS"] = "One thread at a time may use the " handle ".\n"
    if (status)
        refer("mr_status")
    for (i = 1; i <= n; i++)
        refer_users(list[i])
    print_section("RETURN VALUE")
    print_section("OWNERSHIP")
    print_section("THREADS")
    print_section("BLOCKS")
    print ".SH SEE ALSO\n" see_also "\\fBlibmillrace\\fR(3)" > file
    close(file)
    for (i = 2; i <= n; i++) {
        file = out "/" list[i] ".3"
        print ".so man3/" list[1] ".3" > file
        close(file)
    }
}

function print_section(name) {
    if (name in sections)
        printf ".SH %s\n%s", name, sections[name] > file
}

# "x" for ".../x.h".
function header_name(path) {
    sub(/.*\//, "", path)
    sub(/[.]h$/, "", path)
    return path
}

# Read an umbrella header, millrace.h or dist.h: the headers that it includes.
function read_umbrella(path,    line) {
    while ((getline line < path) > 0)
        if (line ~ /^#include <millrace\//) {
            gsub(/.*\/|[.]h>.*/, "", line)
            umbrella[line] = header_name(path)
        }
    close(path)
}

# Today, or the day of SOURCE_DATE_EPOCH for builds that can be repeated.
function read_date(    command) {
    command = "date -u " \
              ("SOURCE_DATE_EPOCH" in ENVIRON ? "-d @" ENVIRON["SOURCE_DATE_EPOCH"] " " : "") "+%F"
    command | getline date
    close(command)
}

BEGIN {
    read_date()
    library["millrace"] = "millrace"
    library["dist"] = "millrace-dist"
    for (i = 1; i < ARGC; i++)
        if (header_name(ARGV[i]) in library)
            read_umbrella(ARGV[i])
    for (i = 1; i < ARGC; i++) {
        header = ARGV[i]
        if (header_name(header) in library)
            continue
        if (!(header_name(header) in umbrella))
            fail("neither millrace.h nor dist.h includes it")
        read_header(header)
    }
    if (!n_pages)
        fail("no declarations")
    for (page = 1; page <= n_pages; page++)
        print_page()
    exit 0
}

END { exit failed }
