import { TriangleAlert } from 'lucide-react';
import { useBrowserList } from '../../api/browser-list.ts';
import { escapeText } from '../../ui/text/escape-text.ts';
import type { Schedule } from './schedule-state.ts';

/** Warnings of the platform about the latest change of a schedule: why its runs would fail. */
interface Warned {
  readonly id: string;
  /** Time of the change, in epoch milliseconds. */
  readonly at: number;
  readonly warnings: readonly string[];
}

const isWarned = (value: unknown): value is Warned => {
  const { id, at, warnings } = (value ?? {}) as Partial<Warned>;
  return typeof id === 'string' && typeof at === 'number' && Array.isArray(warnings);
};
/** Maximum number of schedules whose warnings the browser keeps. */
const MAX_KEPT = 100;

/**
 * Keeps the warnings of schedules in the browser, because the API returns them only with a change. They end with the
 * next change without warnings and with a run that completes.
 */
export function useWarnings() {
  const [kept, change] = useBrowserList('schedule-warnings', isWarned);
  return {
    warningsOf: ({ id, last_run_at, last_run_status }: Schedule): readonly string[] => {
      const own = kept.find((each) => each.id === id);
      if (own === undefined) return [];
      const hasPassed = last_run_status === 'completed' && Date.parse(last_run_at ?? '') > own.at;
      return hasPassed ? [] : own.warnings;
    },
    keep: (id: string, warnings: readonly string[]) => {
      const others = kept.filter((each) => each.id !== id);
      change(warnings.length === 0 ? others : [...others, { id, at: Date.now(), warnings }].slice(-MAX_KEPT));
    },
  };
}

/** The warnings of a schedule. */
export function Warnings({ schedule }: { readonly schedule: Schedule }) {
  const warnings = useWarnings().warningsOf(schedule);
  if (warnings.length === 0) return null;
  return (
    <ul aria-label="Warnings" className="flex flex-col gap-1">
      {warnings.map((warning) => (
        <li key={warning} className="flex items-start gap-1.5 text-warn">
          <TriangleAlert size={14} aria-hidden className="mt-0.5 shrink-0" />
          <span className="min-w-0 break-words">{escapeText(warning)}</span>
        </li>
      ))}
    </ul>
  );
}
