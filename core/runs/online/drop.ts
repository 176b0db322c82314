/** Number of runs whose mean is compared. */
export const WINDOW = 20;
/** Maximum number of runs before these that they are compared with. */
const MAX_BEFORE = 60;
/** Scores of a version that are kept. */
export const MAX_RECENT = WINDOW + MAX_BEFORE;
/** A smaller drop is no news. */
const MIN_DROP = 0.1;
/** Standard errors by which the mean must be lower: with fewer, chance alone would ring each week. */
const MIN_ERRORS = 3;
/** Values are rounded, and so are means. */
const EPSILON = 1e-9;

/** The newest scores of a version, oldest first. */
export interface VersionScores {
  /** Such as 3 for `v3`. */
  readonly version: number;
  readonly recent: readonly number[];
}

interface Mean {
  readonly version: number;
  readonly mean: number;
  readonly runs: number;
}

/** The mean of the newest scores of a version, and the one that it fell from. */
export interface Drop extends Mean {
  readonly before: Mean;
}

/**
 * Whether the scores of a version dropped (`docs/interface/online-evals.md#score-dropped`). Its last runs are compared with those before them, or while
 * there are too few of these, with those of the version before.
 */
export function dropOf({ version, recent }: VersionScores, former: VersionScores | undefined): Drop | undefined {
  if (recent.length < WINDOW) return undefined;
  const own = { version, values: recent.slice(0, -WINDOW).slice(-MAX_BEFORE) };
  const other = former && { version: former.version, values: former.recent.slice(-MAX_BEFORE) };
  const before = [own, other].find((each) => each !== undefined && each.values.length >= WINDOW);
  if (before === undefined) return undefined;
  const now = momentsOf(recent.slice(-WINDOW));
  const then = momentsOf(before.values);
  const drop = then.mean - now.mean;
  const error = Math.sqrt(now.variance / now.count + then.variance / then.count);
  if (drop < MIN_DROP - EPSILON || drop <= MIN_ERRORS * error) return undefined;
  return {
    ...{ version, mean: now.mean, runs: now.count },
    before: { version: before.version, mean: then.mean, runs: then.count },
  };
}

function momentsOf(values: readonly number[]) {
  const count = values.length;
  const mean = values.reduce((sum, value) => sum + value, 0) / count;
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (count - 1);
  return { count, mean, variance };
}
