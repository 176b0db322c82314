import { createHash } from 'node:crypto';

const DIGITS = 12;

/**
 * Whether a run belongs to a sample of this share, from 0 to 1. It follows from the id of the run alone, so that all processes and tries agree,
 * and a larger sample has all runs of a smaller one.
 */
export function isSampled(runId: string, share: number): boolean {
  const digest = createHash('sha256').update(`online\n${runId}`).digest('hex');
  return Number.parseInt(digest.slice(0, DIGITS), 16) < share * 16 ** DIGITS;
}
