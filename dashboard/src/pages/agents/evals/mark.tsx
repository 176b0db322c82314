import { Ban, CircleAlert, CircleCheck, CircleDashed, CircleX, LoaderCircle, type LucideIcon } from 'lucide-react';
import { classes } from '../../../ui/classes.ts';
import type { CaseRun } from './evaluation.ts';

/** `open`: a case that is not decided. */
type Outcome = CaseRun['status'] | 'open';

const MARKS: Readonly<Record<Outcome, readonly [word: string, Icon: LucideIcon, className: string]>> = {
  passed: ['passed', CircleCheck, 'text-good'],
  failed: ['failed', CircleX, 'text-bad'],
  error: ['error', CircleAlert, 'text-warn'],
  cancelled: ['cancelled', Ban, 'text-soft'],
  running: ['running', LoaderCircle, 'text-info'],
  open: ['not decided', CircleDashed, 'text-soft'],
};

export const wordOf = (outcome: Outcome): string => MARKS[outcome][0];

/** A picture of an outcome, with its word for screen readers, or for all. */
export function Mark({ outcome, isWordShown = false }: { readonly outcome: Outcome; readonly isWordShown?: boolean }) {
  const [word, Icon, className] = MARKS[outcome];
  return (
    <span className={classes('inline-flex shrink-0 items-center gap-1', className)}>
      <Icon
        size={15}
        aria-hidden
        className={classes('shrink-0', outcome === 'running' && 'animate-spin [animation-duration:2s]')}
      />
      <span className={isWordShown ? undefined : 'sr-only'}>{word}</span>
    </span>
  );
}
