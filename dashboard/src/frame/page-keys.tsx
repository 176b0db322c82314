import { useNavigate, useParams } from '@tanstack/react-router';
import { useEffect, useRef, useState } from 'react';
import { WORKSPACE_PLACES } from '../navigation.ts';
import { Dialog } from '../ui/dialog.tsx';
import { Checkbox } from '../ui/field.tsx';
import { areKeysOn, isTyping, turnKeys, useKeys, useKeysOn } from '../ui/keys.ts';

/** Maximum delay between the two keys of a sequence such as `g r`. */
const SECOND_KEY_MS = 1_500;

const OTHERS: readonly (readonly [key: string, what: string])[] = [
  ['Ctrl K', 'Search, or go to a page, agent or run'],
  ['/', 'Filter the list'],
  ['j, k', 'Next row, previous row'],
  ['Enter', 'Open the row'],
  ['x', 'Select the row'],
  ['c', 'Cancel the run'],
  ['Shift R', 'Replay the run'],
  ['e', 'Edit the input and replay the run'],
  ['+, -, 0, z', 'Zoom the timeline: in, out, reset, fit the step'],
  ['p', 'Pause or resume live updates'],
  ['Ctrl Enter', 'Run'],
  ['?', 'Show keyboard shortcuts'],
];

/** Keyboard shortcuts of every page: `g` and a letter, `j`, `k`, `/` and `?`. */
export function PageKeys() {
  const [isHelpOpen, setHelpOpen] = useState(false);
  const { workspace } = useParams({ strict: false });
  const navigate = useNavigate();
  const first = useRef(0);
  const isOn = useKeysOn();

  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event) || !areKeysOn()) return;
      if (event.key === 'g') {
        first.current = performance.now();
        return;
      }
      if (performance.now() - first.current > SECOND_KEY_MS) return;
      first.current = 0;
      const place = WORKSPACE_PLACES.find(({ key }) => key === event.key);
      if (place === undefined || workspace === undefined) return;
      event.preventDefault();
      // Keeps this key from the page's own shortcuts.
      event.stopImmediatePropagation();
      void navigate({ to: place.to as '/$workspace', params: { workspace } });
    };
    document.addEventListener('keydown', press, { capture: true });
    return () => document.removeEventListener('keydown', press, { capture: true });
  }, [navigate, workspace]);

  useKeys({
    j: () => goToRow(1),
    k: () => goToRow(-1),
    '/': () => document.querySelector<HTMLElement>('main input[type="search"], main [data-filter] input')?.focus(),
    '?': () => setHelpOpen(true),
  });

  const places = WORKSPACE_PLACES.filter(({ key }) => key !== undefined);
  return (
    <Dialog title="Keyboard shortcuts" isOpen={isHelpOpen} onClose={() => setHelpOpen(false)}>
      <dl className="grid grid-cols-[max-content_1fr] gap-x-4 gap-y-1">
        {[...OTHERS, ...places.map(({ key, label }) => [`g ${key}`, label] as const)].map(([key, what]) => (
          <div key={key} className="contents">
            <dt>
              <kbd className="rounded border border-line bg-panel px-1.5 font-mono text-xs">{key}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <Checkbox value={isOn} onChange={turnKeys}>
        Enable single-key shortcuts
      </Checkbox>
    </Dialog>
  );
}

/** Moves the focus between the rows of the page's table. */
function goToRow(step: 1 | -1): void {
  const rows = [...document.querySelectorAll('main [data-row]')];
  const current = rows.findIndex((row) => row.contains(document.activeElement));
  const next =
    rows[current < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(Math.max(current + step, 0), rows.length - 1)];
  const target = next?.matches('a, button, [tabindex]') ? next : next?.querySelector('a, button');
  (target as HTMLElement | null | undefined)?.focus();
}
