/** Interpreters in the sandbox of a platform under test. */
export interface Languages {
  readonly python: boolean;
  readonly node: boolean;
}
