import { type ReactNode, useEffect, useId, useLayoutEffect, useRef, useState } from 'react';
import { Tooltip as AriaTooltip, TooltipTrigger } from 'react-aria-components/Tooltip';
import { createPortal } from 'react-dom';
import { classes } from './classes.ts';

const DELAY_MS = 400;
/** Delay that lets the pointer move onto the tooltip. */
const CLOSE_MS = 80;
const OFFSET = 6;
const LOOK = 'max-w-72 rounded-md bg-text px-2 py-1 text-xs text-ground shadow-raised [overflow-wrap:anywhere]';

/** Tooltip of a focusable react-aria child, on hover and focus. */
export function Tooltip({ text, children }: { readonly text: ReactNode; readonly children: ReactNode }) {
  return (
    <TooltipTrigger delay={DELAY_MS} closeDelay={CLOSE_MS}>
      {children}
      <AriaTooltip offset={OFFSET} className={LOOK}>
        {text}
      </AriaTooltip>
    </TooltipTrigger>
  );
}

/** Text with a tooltip on hover and focus. It is cheap until opened, because lists have hundreds of them. */
export function Hinted({ text, children }: { readonly text: () => ReactNode; readonly children: ReactNode }) {
  const box = useRef<HTMLButtonElement>(null);
  const id = useId();
  const [isOpen, setOpen] = useState(false);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  // Esc also closes a tooltip that was opened by the pointer while the focus is elsewhere.
  useEffect(() => {
    if (!isOpen) return;
    const press = ({ key }: KeyboardEvent) => key === 'Escape' && setOpen(false);
    document.addEventListener('keydown', press);
    return () => document.removeEventListener('keydown', press);
  }, [isOpen]);
  const change = (next: boolean, afterMs: number) => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setOpen(next), afterMs);
  };
  const enter = () => change(true, isOpen ? 0 : DELAY_MS);
  const leave = () => change(false, CLOSE_MS);
  return (
    <button
      ref={box}
      type="button"
      // Raised above the link of a row; clicks still follow the link.
      className="relative z-10 cursor-[inherit] whitespace-nowrap"
      onClick={({ currentTarget }) => currentTarget.closest('[data-row]')?.querySelector('a')?.click()}
      aria-describedby={isOpen ? id : undefined}
      onPointerEnter={({ pointerType }) => pointerType !== 'touch' && enter()}
      onPointerLeave={leave}
      onFocus={() => box.current?.matches(':focus-visible') && change(true, 0)}
      onBlur={() => change(false, 0)}
    >
      {children}
      {/* Pointer events in the tooltip bubble to the button. */}
      {isOpen &&
        createPortal(
          <Floating id={id} beside={box.current!}>
            {text()}
          </Floating>,
          document.body,
        )}
    </button>
  );
}

/** Positioned above an element, or below it if there is no space. */
function Floating({
  id,
  beside,
  children,
}: {
  readonly id: string;
  readonly beside: HTMLElement;
  readonly children: ReactNode;
}) {
  const box = useRef<HTMLDivElement>(null);
  const [place, setPlace] = useState<{ readonly left: number; readonly top: number }>();
  useLayoutEffect(() => {
    const { left, width, top, bottom } = beside.getBoundingClientRect();
    const { offsetWidth, offsetHeight } = box.current!;
    const max = document.documentElement.clientWidth - offsetWidth - OFFSET;
    const above = top - offsetHeight - OFFSET;
    setPlace({
      left: Math.max(OFFSET, Math.min(max, left + (width - offsetWidth) / 2)),
      top: above >= 0 ? above : bottom + OFFSET,
    });
  }, [beside]);
  return (
    <div
      ref={box}
      id={id}
      role="tooltip"
      className={classes('fixed z-50', LOOK)}
      style={place ?? { visibility: 'hidden' }}
    >
      {children}
    </div>
  );
}
