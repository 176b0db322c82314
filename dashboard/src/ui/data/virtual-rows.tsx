import { useWindowVirtualizer } from '@tanstack/react-virtual';
import { useLayoutEffect, useRef, useState } from 'react';

/** Rows rendered above and below the visible ones. */
const READY = 8;

/** Returns the visible rows of a long table as the window scrolls, and the height of the others. */
export function useVirtualRows({
  count,
  keyOf,
  height,
  isOn = true,
}: {
  readonly count: number;
  readonly keyOf: (index: number) => string;
  /** Row height in pixels: exact, or approximate if `measure` is the row's `ref`. */
  readonly height: number;
  /** @default true */
  readonly isOn?: boolean;
}) {
  const body = useRef<HTMLTableSectionElement>(null);
  const [offset, setOffset] = useState(0);
  // The content above the table can change its height.
  useLayoutEffect(() => {
    if (!isOn) return;
    const top = (body.current?.getBoundingClientRect().top ?? 0) + window.scrollY;
    if (Math.abs(top - offset) > 1) setOffset(top);
  });
  const rows = useWindowVirtualizer({
    count,
    estimateSize: () => height,
    overscan: READY,
    scrollMargin: offset,
    getItemKey: keyOf,
    enabled: isOn,
  });
  const items = rows.getVirtualItems();
  const [first, last] = [items[0], items.at(-1)];
  return {
    body,
    indexes: items.map(({ index }) => index),
    above: first === undefined ? 0 : first.start - offset,
    below: last === undefined ? 0 : rows.getTotalSize() - (last.end - offset),
    measure: rows.measureElement,
  };
}

/** Spacer for the rows out of view. */
export const Gap = ({ height }: { readonly height: number }) =>
  height > 0 && (
    <tr aria-hidden>
      <td style={{ height, padding: 0 }} />
    </tr>
  );
