/** Path parameters of requests about one run. */
export interface RunParams {
  readonly workspace_id: string;
  readonly run_id: string;
}
