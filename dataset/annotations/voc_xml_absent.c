/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces voc_xml.c in a build without expat: every annotation in XML is refused. */
#include "dataset/annotations/voc_xml.h"

mr_status mr_voc_xml_parse(const struct mr_annotation *annotation, struct mr_box_list *list,
                           mr_error *error)
{
    (void)list;
    return mr_annotation_fail(annotation, 0, error, "XML, but this build has no expat");
}
