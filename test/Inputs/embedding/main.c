/* embedding PACKAGE: one step on zeros; prints the name and the bytes of the
 * first output. */
#include <kerf/rt/ranks.h>
#include <kerf/rt/runtime.h>

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  kerf_package_t *package = NULL;
  kerf_session_t *session = NULL;
  kerf_tensor_info_t input, output;
  const void *data = NULL;
  void *zeros = NULL;
  size_t bytes = 0;
  int code = 0;
  kerf_status_t s = kerf_package_open(argc > 1 ? argv[1] : "", NULL, &package);
  if (!s)
    s = kerf_package_input(package, 0, &input);
  if (!s)
    s = kerf_package_output(package, 0, &output);
  if (!s)
    s = kerf_session_create(package, NULL, &session);
  if (!s)
    zeros = calloc(1, input.bytes);
  if (!s)
    s = kerf_session_set_input(session, 0, zeros, input.bytes);
  if (!s)
    s = kerf_session_run(session);
  if (!s)
    s = kerf_session_get_output(session, 0, &data, &bytes);
  if (!s)
    printf("%s: %zu bytes\n", output.name, bytes);
  if (s) {
    fprintf(stderr, "%s\n", kerf_status_message(s));
    code = kerf_status_exit_code(s);
    kerf_status_free(s);
  }
  kerf_session_destroy(session);
  kerf_package_close(package);
  free(zeros);
  return code;
}
