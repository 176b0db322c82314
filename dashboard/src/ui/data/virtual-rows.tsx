import { useWindowVirtualizer } from '@tanstack/react-virtual';
import { useLayoutEffect, useRef, useState } from 'react';

/** Rows that are ready above and below those in sight. */
const READY = 8;

/** The rows of a long table that are in sight as the window scrolls, and the room of the others. */
export function useVirtualRows({
  count,
  keyOf,
  height,
  isOn = true,
}: {
  readonly count: number;
  readonly keyOf: (index: number) => string;
  /** Pixels of a row: of each, or about as many where `measure` is its `ref`. */
  readonly height: number;
  /** @default true */
  readonly isOn?: boolean;
}) {
  const body = useRef<HTMLTableSectionElement>(null);
  const [offset, setOffset] = useState(0);
  // What stands above the table grows and shrinks.
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

/** Room of the rows that are out of sight. */
export const Gap = ({ height }: { readonly height: number }) =>
  height > 0 && (
    <tr aria-hidden>
      <td style={{ height, padding: 0 }} />
    </tr>
  );
