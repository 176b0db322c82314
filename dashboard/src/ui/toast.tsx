import { CircleAlert, CircleCheck, Info, X } from 'lucide-react';
import { useEffect, useSyncExternalStore } from 'react';
import { ApiError } from '../api-error.ts';
import { Button, IconButton } from './button.tsx';

export interface ToastContent {
  readonly tone?: 'good' | 'bad' | 'info';
  /** Message in one sentence. @default - the message of `error` */
  readonly text?: string;
  readonly error?: unknown;
  /** Optional action, such as "Undo". */
  readonly action?: { readonly label: string; readonly run: () => void };
}
interface Toast extends ToastContent {
  readonly id: number;
}

const LIFE_MS = 6_000;
const MAX_TOASTS = 4;

let toasts: readonly Toast[] = [];
let count = 0;
const listeners = new Set<() => void>();
const change = (next: readonly Toast[]) => {
  toasts = next;
  for (const listener of listeners) listener();
};
const subscribe = (listener: () => void) => {
  listeners.add(listener);
  return () => void listeners.delete(listener);
};

/** Shows a message above the page for a few seconds. Errors stay until they are closed. */
export function toast(content: ToastContent): () => void {
  count += 1;
  const shown = { ...content, id: count };
  change([...toasts, shown].slice(-MAX_TOASTS));
  return () => close(shown.id);
}
const close = (id: number) => change(toasts.filter((each) => each.id !== id));

const ICONS = { good: CircleCheck, bad: CircleAlert, info: Info };
const COLOURS = { good: 'text-good', bad: 'text-bad', info: 'text-info' };

function ToastCard({ id, tone = 'info', text, error, action }: Toast) {
  useEffect(() => {
    if (tone === 'bad') return;
    const timer = setTimeout(() => close(id), LIFE_MS);
    return () => clearTimeout(timer);
  }, [id, tone]);
  const Icon = ICONS[tone];
  const hint = error instanceof ApiError ? error.hint : undefined;
  return (
    <li className="pointer-events-auto flex items-start gap-2 rounded-lg bg-raised p-3 shadow-raised animate-[appear_.15s]">
      <Icon size={16} aria-hidden className={`mt-0.5 shrink-0 ${COLOURS[tone]}`} />
      <div className="min-w-0 grow">
        <p>{text ?? (error as Error | undefined)?.message}</p>
        {hint && <p className="text-soft">{hint}</p>}
        {action && (
          <div className="mt-2">
            <Button
              onPress={() => {
                close(id);
                action.run();
              }}
            >
              {action.label}
            </Button>
          </div>
        )}
      </div>
      <IconButton icon={X} label="Close message" onPress={() => close(id)} />
    </li>
  );
}

/** Container of toasts, rendered once in the root frame. */
export function Toasts() {
  const shown = useSyncExternalStore(subscribe, () => toasts);
  return (
    <section aria-label="Messages" aria-live="polite" className="pointer-events-none fixed inset-x-0 bottom-0 z-50 p-4">
      <ol className="ml-auto flex w-full max-w-96 flex-col gap-2">
        {shown.map((each) => (
          <ToastCard key={each.id} {...each} />
        ))}
      </ol>
    </section>
  );
}
