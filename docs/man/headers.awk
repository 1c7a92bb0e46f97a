# SPDX-License-Identifier: Apache-2.0
#
# Reads the public headers for the manual. pages.awk and reference.awk use it and write the text. A
# block is a comment and the declarations that follow it without an empty line or another comment
# between. The headers are thus the only source of the manual.

# A line of a comment without the comment's characters.
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
        } else if (in_comment ||
                   (line ~ /^\/\*/ && (code == "" || (line ~ /^\/\*\*/ && depth == 0)))) {
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
                sub(/^       /, "", line) # the width of MR_API, which is removed
            sub(/^MR_API /, "", line)
            code = code line "\n"
        }
    }
    close(path)
    take_block(comment, code)
}
