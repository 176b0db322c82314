import { escapeText } from '../text/escape-text.ts';
import { Time } from './time.tsx';

interface Entry {
  readonly id: string;
  readonly event_type: string;
  readonly message: string | null;
  readonly created_at: string;
}

/** Events of an object, newest first. */
export function Timeline({ entries }: { readonly entries: readonly Entry[] }) {
  return (
    <ol className="flex flex-col rounded-lg border border-line bg-raised">
      {entries.map(({ id, event_type, message, created_at }) => (
        <li key={id} className="flex items-baseline gap-3 border-b border-line px-3 py-2 last:border-0">
          <span className="w-24 shrink-0 text-soft">
            <Time at={created_at} />
          </span>
          <span className="min-w-0">{escapeText(message ?? event_type.replaceAll('_', ' '))}</span>
        </li>
      ))}
    </ol>
  );
}
