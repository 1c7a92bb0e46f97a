/* SPDX-License-Identifier: Apache-2.0 */
/* Takes keys from JSON by libyajl. */
#include "dataset/remote/stores/key_text.h"

#include <string.h>
#include <yajl_tree.h>

static char *find_string(yajl_val tree, const char *name)
{
    const char *path[] = {name, NULL};
    yajl_val value = yajl_tree_get(tree, path, yajl_t_string);
    return value ? value->u.string : NULL;
}

static void wipe(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
}

mr_status mr_key_json_parse(const char *json, struct mr_key_set *out, mr_error *error)
{
    yajl_val tree = yajl_tree_parse(json, NULL, 0);
    if (!tree)
        return mr_error_set(error, MR_ERR_DAMAGED, "its answer is not JSON");
    char *secret = find_string(tree, "SecretAccessKey"), *token = find_string(tree, "SessionToken");
    token = token ? token : find_string(tree, "Token");
    const char *code = find_string(tree, "Code");
    const struct mr_key_texts texts = {.id = find_string(tree, "AccessKeyId"),
                                       .secret = secret,
                                       .token = token,
                                       .end = find_string(tree, "Expiration"),
                                       .code = code ? code : find_string(tree, "code")};
    mr_status status = mr_key_text_take(&texts, out, error);
    wipe(secret);
    wipe(token);
    yajl_tree_free(tree);
    return status;
}
