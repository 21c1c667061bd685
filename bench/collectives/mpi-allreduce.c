/* mpi-allreduce.c - the same all-reduce by MPI: mpirun -n N ./mpi-allreduce
   BYTES ROUNDS prints the median in microseconds of rank 0, between barriers.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks, rounds = atoi(argv[2]);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  long count = atol(argv[1]) / 4;
  float *src = malloc(count * sizeof(float)),
        *dst = calloc(count, sizeof(float));
  double *times = malloc(rounds * sizeof(double));
  for (long i = 0; i < count; ++i)
    src[i] = 1;
  for (int round = -5; round < rounds; ++round) {
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    MPI_Allreduce(src, dst, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    if (round >= 0)
      times[round] = (MPI_Wtime() - begin) * 1e6;
  }
  qsort(times, rounds, sizeof(double), compare);
  if (rank == 0)
    printf("%.2f\n", dst[count - 1] == ranks ? times[rounds / 2] : -1.0);
  MPI_Finalize();
  return 0;
}
