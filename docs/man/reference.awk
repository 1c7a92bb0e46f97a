# SPDX-License-Identifier: Apache-2.0
#
# awk -f headers.awk -f reference.awk PAGE.scd FILE...: print the page with three kinds of lines
# replaced:
#
#   @reference x.h   every declaration of that FILE as code, followed by its comment as text
#   @code x.c        that FILE as code
#   @options x.c Y:  the options in that FILE (tools/arg_list.h) below the heading "Y:", or all of
#                    them without a heading, except those that this section of the page describes
#
# Inside a comment, "Returns", "Ownership:", "Threads:", "Blocks:" and "argument  text" begin a
# paragraph. Lines indented by two spaces are code, but after an argument they continue its text.

# The argument that ends in /name. It is an error if there is none.
function find_file(name,    i) {
    for (i = 2; i < ARGC; i++)
        if (substr(ARGV[i], length(ARGV[i]) - length(name)) == "/" name)
            return ARGV[i]
    print "reference.awk: no file " name > "/dev/stderr"
    failed = 1
    exit 1
}

function escape(text) {
    gsub(/[\\*_`]/, "\\\\&", text)
    gsub(/\+\+/, "+\\+", text)
    return text
}

# scdoc interprets backslashes even inside a literal block.
function literal(text) {
    gsub(/\\/, "&&", text)
    return text
}

function end_literal() {
    if (in_literal)
        print "```\n"
    in_literal = 0
}

# One line of a comment, without its star.
function comment_line(text) {
    if (in_argument && text ~ /^  +[^ ]/)
        sub(/^ +/, "", text)
    if (text ~ /^  +[^ ]/) {
        if (!in_literal)
            print "\n```"
        in_literal = 1
        print literal(text)
        return
    }
    end_literal()
    if (text ~ /^[a-z_]+  +[^ ]/) {
        name = text
        sub(/ .*/, "", name)
        sub(/^[a-z_]+ +/, "", text)
        print "\n*" name "*: " escape(text)
        in_argument = 1
    } else if (text ~ /^(Ownership|Threads|Blocks):/ || text ~ /^Returns /) {
        name = text
        sub(/[ :].*/, "", name)
        sub(/^[A-Za-z]+/, "", text)
        print "\n*" name "*" escape(text)
        in_argument = 0
    } else if (text == "") {
        paragraph = 1
        in_argument = 0
        return
    } else {
        if (paragraph)
            print ""
        print (text ~ /^[].#[|-]/ ? "\\" : "") escape(text)
    }
    paragraph = 0
}

function print_comment(comment,    lines, n, i) {
    n = split(comment, lines, "\n")
    paragraph = in_argument = 0
    for (i = 1; i <= n; i++)
        comment_line(lines[i])
    end_literal()
    print ""
}

function take_block(comment, code) {
    if (code ~ /^#define/ && comment != "") { # the comment of a constant stays with it
        code = "/* " comment " */\n" code
        comment = ""
    }
    if (code != "")
        print "```\n" literal(code) "```\n"
    if (comment != "" && (code != "" || !seen_block))
        print_comment(comment)
    seen_block = 1
}

function print_reference(path) {
    seen_block = 0
    read_header(path)
}

function print_code(path,    line) {
    print "```"
    while ((getline line < path) > 0)
        print literal(line)
    print "```"
    close(path)
}

# Print an entry for a line of the list, {"read-ahead", "N", "Reads in flight (default 4)", ...}.
function print_option(row,    part, value, text) {
    gsub(/" +"/, "", row) # a text of two lines
    split(row, part, "\"")
    if (part[2] in described)
        return
    value = part[3] ~ /NULL/ ? "" : part[4]
    text = value == "" ? part[4] : part[6]
    gsub(/[^|]+/, "_&_", value)
    text = escape(text)
    if (sub(/ \(default /, ". Default ", text))
        sub(/\)$/, "", text)
    if (match(text, /Default [a-z][a-z0-9]*/)) # a word
        text = substr(text, 1, RSTART + 7) "_" substr(text, RSTART + 8, RLENGTH - 8) "_" \
               substr(text, RSTART + RLENGTH)
    print "\n*--" part[2] "*" (value == "" ? "" : " " value) "\n\t" text "."
}

function print_options(path, heading,    line, row, inside) {
    inside = heading == ""
    while ((getline line < path) > 0) {
        if (line ~ /^    \{\.help = / && heading != "")
            inside = index(line, "\"" heading "\"")
        else if (line ~ /^    \{"/ || row != "")
            row = row line
        if (row ~ /\},$/) {
            if (inside)
                print_option(row)
            row = ""
        }
    }
    close(path)
}

# The options that this section of the page describes: after an empty line, as "*--read-ahead* _N_".
/^# / { split("", described) }
previous == "" && /^(_[^ ]*, )?\*--/ {
    n_parts = split($0, parts, /\*/)
    for (i = 2; i <= n_parts; i += 2)
        described[substr(parts[i], 3)] = 1
}
{ previous = $0 }

# awk's main loop reads only the page.
FNR == 1 && NR > 1 { exit failed }
/^@reference / { print_reference(find_file($2)); next }
/^@options / { print_options(find_file($2), $3); next }
/^@code / { print_code(find_file($2)); next }
{ print }
END { exit failed }
