/** What requests about one run name it by. */
export interface RunParams {
  readonly workspace_id: string;
  readonly run_id: string;
}
