import { escapeText } from '../ui/text/escape-text.ts';
import type { AnswerOf } from './client.ts';

type Score = AnswerOf<'listRunScores'>['scores'][number];

/** Returns the number or the label of a score, safe to show. */
export const scoreText = ({ value, label }: Pick<Score, 'value' | 'label'>): string =>
  value === null ? escapeText(label!) : String(value);
