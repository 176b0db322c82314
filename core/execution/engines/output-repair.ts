import { type FieldError, isUnchecked } from '#core/manifest/field-error.ts';
import type { EngineRun } from './engine.ts';
import type { ReadReply } from './reply.ts';

/** What an answer needs at least, unless a third of the run's time is left. */
const ANSWER_MS = 15_000;
/** The first answer is kept if the second one is not there so long before the deadline. */
const RESERVED_MS = 1_000;
const MAX_TRACED = 5;

/** When a corrected answer must be there, in epoch milliseconds; `undefined` if there is no time for one. */
export function repairDeadline({ deadline }: Pick<EngineRun, 'deadline'>, startedAt: number, now: number) {
  const left = deadline - RESERVED_MS - now;
  return left >= ANSWER_MS || left >= (deadline - startedAt) / 3 ? deadline - RESERVED_MS : undefined;
}

/** Whether the model can do something about it: a cut answer would be cut again, and a check that did not end tells nothing. */
export const isRepairable = ({ dataProblems = [], warnings }: ReadReply): boolean =>
  dataProblems.length > 0 && !dataProblems.some(isUnchecked) && !warnings.some(({ code }) => code === 'TRUNCATED');

/** What a prompt's model is told of its answer (`docs/interface/prompts.md#schema`). */
export const correctionOf = (reply: ReadReply): string => `${faultOf(reply)} Answer with the corrected JSON only.`;

/** What is wrong with an answer, for the model. */
export function faultOf({ isJson, dataProblems = [] }: ReadReply): string {
  return `Your answer ${isJson ? `does not match its schema: ${sentence(dataProblems)}` : 'is not JSON'}.`;
}

/** Of two answers that do not match, the first one is kept: a client may have seen it. */
export const isBetter = ({ isJson, dataProblems = [], warnings }: ReadReply, first: ReadReply): boolean =>
  !warnings.some(({ code }) => code === 'TRUNCATED') &&
  isJson &&
  (!first.isJson || dataProblems.length < first.dataProblems!.length);

/** For the trace, masked. */
export const tracedProblems = ({ isJson, dataProblems = [] }: ReadReply, mask: EngineRun['mask']): string[] =>
  (isJson ? dataProblems.slice(0, MAX_TRACED).map(wordsOf) : ['is not JSON']).map((text) => mask.text(text));

const sentence = (problems: readonly FieldError[]): string => problems.map(wordsOf).join('; ');
const wordsOf = ({ field, message }: FieldError): string => `${field === '' ? 'it' : field} ${message}`;
