# SPDX-License-Identifier: Apache-2.0
#
# How the manual reads a public header; the programs beside this file say what becomes of it. A block is a comment and the
# declarations that follow it without an empty line or another comment between. So the headers are the one source of the
# manual.

# A comment's line without what makes it a comment.
function strip(line) {
    sub(/^\/\*\*? ?/, "", line)
    sub(/ ?\*\/ *$/, "", line)
    sub(/^ \* ?/, "", line)
    return line
}

# Call take_block(comment, code) for every block of a header, in order.
function read_header(path,    line, comment, code, in_comment, depth, nested, text) {
    while ((getline line < path) > 0) {
        if (line ~ /SPDX/)
            continue
        if (line ~ /^#(if|ifdef|ifndef)/) {
            nested++
        } else if (line ~ /^#endif/) {
            nested--
        } else if (in_comment || (line ~ /^\/\*/ && (code == "" || (line ~ /^\/\*\*/ && depth == 0)))) {
            if (code != "") {
                take_block(comment, code)
                comment = code = ""
            }
            in_comment = line !~ /\*\//
            text = strip(line)
            if (comment != "" || text != "")
                comment = comment text (in_comment ? "\n" : "")
        } else if (line ~ /^#include/ || line ~ /^#define [A-Z_]+_H$/ || nested > 1) {
            if (nested <= 1) {
                take_block(comment, code)
                comment = code = ""
            }
        } else if (line ~ /^$/ && depth == 0) {
            take_block(comment, code)
            comment = code = ""
        } else {
            depth += gsub(/[{]/, "{", line) - gsub(/[}]/, "}", line)
            if (line ~ /^       +[^ ]/ && depth == 0)
                sub(/^       /, "", line) # the width of MR_API, which goes
            sub(/^MR_API /, "", line)
            code = code line "\n"
        }
    }
    close(path)
    take_block(comment, code)
}
