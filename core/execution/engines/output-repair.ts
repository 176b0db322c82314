import { type FieldError, isUnchecked } from '#core/manifest/field-error.ts';
import type { EngineRun } from './engine.ts';
import type { ReadReply } from './reply.ts';

/** Minimum time for another answer, unless a third of the run's time remains. */
const ANSWER_MS = 15_000;
/** The first answer is used if the second one has not arrived this long before the deadline. */
const RESERVED_MS = 1_000;
const MAX_TRACED = 5;

/** Deadline of a corrected answer in epoch milliseconds; `undefined` if there is no time for one. */
export function repairDeadline({ deadline }: Pick<EngineRun, 'deadline'>, startedAt: number, now: number) {
  const left = deadline - RESERVED_MS - now;
  return left >= ANSWER_MS || left >= (deadline - startedAt) / 3 ? deadline - RESERVED_MS : undefined;
}

/**
 * Whether the model can correct the answer. A truncated answer would be truncated again, and a check that timed out
 * found nothing.
 */
export const isRepairable = ({ dataProblems = [], warnings }: ReadReply): boolean =>
  dataProblems.length > 0 && !dataProblems.some(isUnchecked) && !warnings.some(({ code }) => code === 'TRUNCATED');

/** Message to a prompt's model about its answer (`docs/interface/prompts.md#schema`). */
export const correctionOf = (reply: ReadReply): string => `${faultOf(reply)} Answer with the corrected JSON only.`;

/** Describes the problems of an answer for the model. */
export function faultOf({ isJson, dataProblems = [] }: ReadReply): string {
  return `Your answer ${isJson ? `does not match its schema: ${sentence(dataProblems)}` : 'is not JSON'}.`;
}

/** Whether a corrected answer is better. If neither answer matches, the first is used: a client may have seen it. */
export const isBetter = ({ isJson, dataProblems = [], warnings }: ReadReply, first: ReadReply): boolean =>
  !warnings.some(({ code }) => code === 'TRUNCATED') &&
  isJson &&
  (!first.isJson || dataProblems.length < first.dataProblems!.length);

/** Problems of an answer for the trace, masked. */
export const tracedProblems = ({ isJson, dataProblems = [] }: ReadReply, mask: EngineRun['mask']): string[] =>
  (isJson ? dataProblems.slice(0, MAX_TRACED).map(wordsOf) : ['is not JSON']).map((text) => mask.text(text));

const sentence = (problems: readonly FieldError[]): string => problems.map(wordsOf).join('; ');
const wordsOf = ({ field, message }: FieldError): string => `${field === '' ? 'it' : field} ${message}`;
