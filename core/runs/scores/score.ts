/** Longest texts, in characters. */
export const MAX_SCORE_COMMENT = 2000;
/** Values are between minus and plus this number: their sums keep a millionth exactly. */
export const MAX_SCORE_VALUE = 1_000_000;

export const MAX_SCORE_LABEL = 64;
/** Maximum number of scores of a run: all of them are one item, of at most 400 KB. */
export const MAX_SCORES = 50;

/** What somebody or something thinks of a run. Its name and source are unique in the run. */
export interface Score {
  readonly name: string;
  /** Who or what scored, such as `user` or `judge`. */
  readonly source: string;
  /** Either a number or a label. */
  readonly value?: number;
  readonly label?: string;
  readonly comment?: string;
  /** Id of the user whose key sent it; `platform` for online scores. */
  readonly createdBy: string;
  /** ISO 8601. */
  readonly createdAt: string;
  readonly updatedAt: string;
}

/** The scores of a run, oldest first. */
export interface ScoredRun {
  readonly runId: string;
  readonly agentVersion: string;
  /** Start of the run, ISO 8601. */
  readonly startedAt: string;
  readonly scores: readonly Score[];
}
