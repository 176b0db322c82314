import { type ReactNode, useRef, useState } from 'react';

const [MIN_SHARE, MAX_SHARE, DEFAULT_SHARE] = [30, 80, 60];
const STEP = 2;
const STORED = 'split';

const within = (share: number): number => Math.round(Math.min(MAX_SHARE, Math.max(MIN_SHARE, share)));

function storedShare(): number {
  try {
    return within(Number(localStorage.getItem(STORED) ?? DEFAULT_SHARE) || DEFAULT_SHARE);
  } catch {
    // Storage is disabled.
    return DEFAULT_SHARE;
  }
}

function store(share: number): void {
  try {
    localStorage.setItem(STORED, String(share));
  } catch {
    // Storage is disabled: the position lasts until the page is closed.
  }
}

/**
 * Two resizable panels, side by side if there is space. The divider moves by pointer or arrow keys; a double click
 * resets it. The browser remembers its position.
 */
export function Split({ left, right }: { readonly left: ReactNode; readonly right: ReactNode }) {
  const box = useRef<HTMLDivElement>(null);
  const [share, setShare] = useState(storedShare);
  const move = (to: number) => {
    setShare(within(to));
    store(within(to));
  };
  const press: Readonly<Record<string, number>> = {
    ArrowLeft: share - STEP,
    ArrowRight: share + STEP,
    Home: MIN_SHARE,
    End: MAX_SHARE,
  };
  return (
    <div
      ref={box}
      style={{ '--share': `${share}fr`, '--rest': `${100 - share}fr` } as React.CSSProperties}
      className="grid min-w-0 grid-cols-1 gap-y-4 lg:grid-cols-[minmax(0,var(--share))_1rem_minmax(0,var(--rest))]"
    >
      {left}
      {/* biome-ignore lint/a11y/useSemanticElements: a rule that is moved has a value, which hr has not. */}
      <div
        role="separator"
        aria-label="Width of the panels"
        aria-orientation="vertical"
        aria-valuenow={share}
        aria-valuemin={MIN_SHARE}
        aria-valuemax={MAX_SHARE}
        tabIndex={0}
        className="group flex cursor-col-resize touch-none justify-center max-lg:hidden"
        onPointerDown={(event) => {
          event.preventDefault();
          event.currentTarget.setPointerCapture(event.pointerId);
        }}
        onPointerMove={({ currentTarget, pointerId, clientX }) => {
          if (!currentTarget.hasPointerCapture(pointerId)) return;
          const { left: from, width } = box.current!.getBoundingClientRect();
          move(((clientX - from) / width) * 100);
        }}
        onDoubleClick={() => move(DEFAULT_SHARE)}
        onKeyDown={(event) => {
          const to = press[event.key];
          if (to === undefined) return;
          event.preventDefault();
          move(to);
        }}
      >
        <span aria-hidden className="w-px bg-line group-hover:w-0.5 group-hover:bg-accent group-focus-visible:w-0.5" />
      </div>
      {right}
    </div>
  );
}
