import type { ReactNode } from 'react';
import { Tooltip as AriaTooltip, TooltipTrigger } from 'react-aria-components/Tooltip';

/** Text beside a focusable child of react-aria, at hover and focus. */
export function Tooltip({ text, children }: { readonly text: ReactNode; readonly children: ReactNode }) {
  return (
    <TooltipTrigger delay={400} closeDelay={80}>
      {children}
      <AriaTooltip
        offset={6}
        className="max-w-72 rounded-md bg-text px-2 py-1 text-xs text-ground shadow-raised [overflow-wrap:anywhere]"
      >
        {text}
      </AriaTooltip>
    </TooltipTrigger>
  );
}
