/** The interpreters that the sandbox of a platform under test has. */
export interface Languages {
  readonly python: boolean;
  readonly node: boolean;
}
