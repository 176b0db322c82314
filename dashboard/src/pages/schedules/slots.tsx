import {
  Ban,
  CircleAlert,
  CircleCheck,
  CircleDashed,
  CirclePause,
  CircleX,
  Clock,
  LoaderCircle,
  type LucideIcon,
} from 'lucide-react';
import type { Entry, EntryState } from './week-entries.ts';

const LOOKS: Readonly<Record<EntryState, readonly [word: string, colour: string, icon: LucideIcon]>> = {
  failed: ['failed', 'bg-bad-ground text-bad', CircleX],
  missed: ['missed', 'bg-warn-ground text-warn', CircleAlert],
  skipped: ['skipped', 'bg-hover text-soft', CircleDashed],
  cancelled: ['cancelled', 'bg-warn-ground text-warn', Ban],
  completed: ['ran', 'bg-good-ground text-good', CircleCheck],
  running: ['running', 'bg-info-ground text-info', LoaderCircle],
  waiting: ['waiting', 'bg-warn-ground text-warn', CirclePause],
  due: ['due', 'border border-line text-soft', Clock],
};
const TIME = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });
/** Maximum number of slots of one state listed individually; more are counted. */
const SINGLE = 2;

/** Slots of a schedule on one day, grouped by state. */
export function Slots({ entries }: { readonly entries: readonly Entry[] }) {
  if (entries.length === 0) return null;
  return (
    <ul className="flex flex-col gap-1">
      {(Object.keys(LOOKS) as EntryState[]).map((state) => {
        const those = entries.filter((each) => each.state === state).sort((a, b) => a.at - b.at);
        const count = those.reduce((sum, each) => sum + each.count, 0);
        if (count === 0) return null;
        const [word, colour, Icon] = LOOKS[state];
        const times = those.map(({ at }) => TIME.format(at)).join(', ');
        const note = those.find(({ text }) => text !== undefined)?.text;
        return (
          <li
            key={state}
            title={[count > SINGLE ? `${TIME.format(those[0]!.at)} to ${TIME.format(those.at(-1)!.at)}` : times, note]
              .filter((text) => text !== undefined)
              .join(': ')}
            className={`flex items-start gap-1 rounded px-1.5 py-0.5 text-xs ${colour}`}
          >
            <Icon size={12} aria-hidden className="mt-0.5 shrink-0" />
            <span>
              {count > SINGLE ? `${count} ${word}` : `${times} ${count > those.length ? `${count} ` : ''}${word}`}
            </span>
          </li>
        );
      })}
    </ul>
  );
}
