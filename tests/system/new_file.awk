# SPDX-License-Identifier: Apache-2.0
# awk -v name=PATH -f new_file.awk DIFF: prints the file PATH that a diff adds; without a name it
# only checks the diff. Fails if the diff does not add PATH, or if the number of lines of any hunk
# differs from its head, because patch would refuse that.
function fail(words) {
    print FILENAME ":" FNR ": " words >"/dev/stderr"
    failed = 1
    exit 1
}
# @@ -1,2 +1,4 @@; a count of 1 is left out.
function count(range,  parts) {
    return split(range, parts, ",") == 2 ? parts[2] : 1
}
old + new == 0 && /^--- / { from = $2 }
old + new == 0 && /^\+\+\+ / { wanted = $2 == "b/" name && from == "/dev/null" }
old + new == 0 && /^@@ / { old = count($2); new = count($3); next }
old + new == 0 { next }
/^ / { old--; new-- }
/^-/ { old-- }
/^\+/ {
    new--
    if (wanted) { print substr($0, 2); found = 1 }
}
!/^[ +-]/ || old < 0 || new < 0 { fail("the hunk has other lines than its head says") }
END {
    if (!failed && old + new != 0) fail("the last hunk is too short")
    if (!failed && name && !found) fail("no new file " name)
    exit failed
}
