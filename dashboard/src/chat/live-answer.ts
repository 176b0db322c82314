import { resumedText } from '#core/base/attempt-text.ts';
import type { ProgressRecord } from '../live/read-records.ts';

/** A part of an answer that is being made, in the order in which they come. */
export type AnswerPart =
  | { readonly kind: 'text' | 'thought'; readonly turn: number; readonly text: string }
  | {
      readonly kind: 'tool';
      readonly turn: number;
      readonly tool: string;
      /** Beginning of the arguments. */
      readonly brief: string;
      readonly status: 'running' | 'ok' | 'error';
      /** Epoch milliseconds. */
      readonly startedAt: number;
      readonly endedAt?: number;
    };

/** An answer that is being made. */
export interface LiveAnswer {
  readonly parts: readonly AnswerPart[];
  /** Output of a program. */
  readonly output: string;
  /** What happens now, if no part says it. */
  readonly note: string | undefined;
  /** Whether the run waits for people, time or events. */
  readonly isWaiting: boolean;
}

export const NO_ANSWER: LiveAnswer = { parts: [], output: '', note: undefined, isWaiting: false };

/** Maximum length of a text that is kept: the end of a longer one. */
const MAX_TEXT = 200_000;
const MAX_PARTS = 500;

/** Returns an answer with what a progress record adds. @param now epoch milliseconds */
export function answerAfter(answer: LiveAnswer, record: ProgressRecord, now: number): LiveAnswer {
  const { text = '', tool = '', args_brief: brief = '', status } = record;
  const turn = record.turn ?? answer.parts.at(-1)?.turn ?? 0;
  switch (record.type) {
    case 'text_delta':
      return withText(answer, 'text', turn, text);
    case 'reasoning_delta':
      return withText(answer, 'thought', turn, text);
    case 'stdout':
    case 'stderr':
      return { ...answer, output: (answer.output + text).slice(-MAX_TEXT), note: undefined };
    case 'sandbox_start':
      return { ...answer, note: 'Starting the sandbox' };
    case 'turn_start':
      return { ...answer, note: 'Thinking' };
    case 'tool_call':
      return withPart(answer, { kind: 'tool', turn, tool, brief, status: 'running', startedAt: now });
    case 'tool_result': {
      const index = answer.parts.findIndex(
        (part) => part.kind === 'tool' && part.tool === tool && part.status === 'running',
      );
      const part = answer.parts[index];
      if (part?.kind !== 'tool') return answer;
      const ended = { ...part, status: status === 'error' ? ('error' as const) : ('ok' as const), endedAt: now };
      return { ...answer, parts: answer.parts.with(index, ended) };
    }
    case 'retry':
      return { ...answer, parts: withoutTexts(answer.parts, turn), note: 'Asking the model again' };
    case 'context_compacted':
      return { ...answer, note: 'Summing up the conversation' };
    case 'waiting':
      return { ...answer, note: undefined, isWaiting: true };
    case 'interrupted':
      return { ...NO_ANSWER, note: 'The sandbox was lost: the program begins again' };
    case 'resumed':
      return resumed(answer, record, turn);
    default:
      return answer;
  }
}

/** What a process had not finished when another one took over is void; a decision leaves everything. */
function resumed(answer: LiveAnswer, record: ProgressRecord, turn: number): LiveAnswer {
  const note = resumedText(record);
  if (record.reason === 'retry') return { ...NO_ANSWER, note };
  const isKept = record.reason === 'decision' || record.reason === 'timeout';
  return { ...answer, parts: isKept ? answer.parts : withoutTexts(answer.parts, turn), note, isWaiting: false };
}

function withText(answer: LiveAnswer, kind: 'text' | 'thought', turn: number, text: string): LiveAnswer {
  const last = answer.parts.at(-1);
  if (last === undefined || last.kind !== kind || last.turn !== turn) {
    return withPart(answer, { kind, turn, text });
  }
  const joined = { kind, turn, text: (last.text + text).slice(-MAX_TEXT) };
  return { ...answer, parts: answer.parts.with(-1, joined), note: undefined, isWaiting: false };
}

const withPart = (answer: LiveAnswer, part: AnswerPart): LiveAnswer => ({
  ...answer,
  parts: [...answer.parts, part].slice(-MAX_PARTS),
  note: undefined,
  isWaiting: false,
});

const withoutTexts = (parts: readonly AnswerPart[], turn: number): readonly AnswerPart[] =>
  parts.filter((part) => part.kind === 'tool' || part.turn !== turn);

/** Returns the text that the answer ends with: what the model wrote after its last tool. */
export function lastTextOf({ parts }: LiveAnswer): string {
  const last = parts.findLastIndex(({ kind }) => kind === 'tool');
  return parts
    .slice(last + 1)
    .flatMap((part) => (part.kind === 'text' ? part.text : []))
    .join('');
}
