import { Pause, Play } from 'lucide-react';
import { Button } from '../ui/button.tsx';
import { classes } from '../ui/classes.ts';
import { useKeys } from '../ui/keys.ts';
import type { LiveState } from './watch.ts';

const WORDS: Readonly<Record<LiveState, readonly [word: string, colour: string]>> = {
  live: ['Live', 'bg-good'],
  paused: ['Paused', 'bg-soft'],
  reconnecting: ['Reconnecting', 'bg-warn'],
  polling: ['Every 5 s', 'bg-warn'],
  over: ['Ended', 'bg-soft'],
};

/** Shows whether the data is live, and the button (key `p`) that pauses updates. */
export function LiveBadge({ state, onPause }: { readonly state: LiveState; readonly onPause?: () => void }) {
  useKeys({ p: onPause });
  const [word, colour] = WORDS[state];
  return (
    <div className="flex items-center gap-2">
      <span role="status" className="flex items-center gap-1.5 text-xs text-soft">
        <span aria-hidden className={classes('size-2 rounded-full', colour)} />
        {word}
      </span>
      {onPause && state !== 'over' && (
        <Button variant="quiet" icon={state === 'paused' ? Play : Pause} onPress={onPause}>
          {state === 'paused' ? 'Resume updates' : 'Pause updates'}
        </Button>
      )}
    </div>
  );
}
