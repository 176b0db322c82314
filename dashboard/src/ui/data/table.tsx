import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { classes } from '../classes.ts';
import { Gap, useVirtualRows } from './virtual-rows.tsx';

export interface Column<Row> {
  readonly title: string;
  readonly cell: (row: Row) => ReactNode;
  /** Right-aligned, for numbers. @default false */
  readonly isNumber?: boolean;
  /** Breakpoint below which the column is hidden. @default - always visible */
  readonly from?: 'sm' | 'md' | 'lg';
}

const FROM = { sm: 'max-sm:hidden', md: 'max-md:hidden', lg: 'max-lg:hidden' };

/** Renders all rows up to this many; virtualises above. */
const MAX_RENDERED_ROWS = 150;
/** Approximate row height in pixels. */
const ROW_HEIGHT = 37;

/**
 * A table of any length, virtualised when long. With `linkOf` each row is a link: the first cell has the link, and a
 * click anywhere in the row follows it. `j` and `k` move between rows (the page frame handles them through `data-row`).
 */
export function Table<Row>({
  label,
  columns,
  rows,
  keyOf,
  linkOf,
  empty,
}: {
  /** Accessible name of the table. */
  readonly label: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string;
  /** Link options of the router for a row. */
  readonly linkOf?: (row: Row) => { readonly to: string; readonly params?: object; readonly search?: object };
  /** Shown instead of an empty table. */
  readonly empty?: ReactNode;
}) {
  const isLong = rows.length > MAX_RENDERED_ROWS;
  const { body, indexes, above, below, measure } = useVirtualRows({
    count: rows.length,
    height: ROW_HEIGHT,
    keyOf: (index) => keyOf(rows[index]!),
    isOn: isLong,
  });
  if (rows.length === 0 && empty !== undefined) return <>{empty}</>;
  return (
    <div className="overflow-x-auto rounded-lg border border-line bg-raised">
      <table className="w-full border-collapse text-left" aria-rowcount={isLong ? rows.length + 1 : undefined}>
        <caption className="sr-only">{label}</caption>
        <thead>
          <tr className="border-b border-line bg-panel text-xs text-soft">
            {columns.map(({ title, isNumber, from }) => (
              <th
                key={title}
                scope="col"
                className={classes(
                  'px-3 py-1.5 font-medium whitespace-nowrap',
                  isNumber && 'text-right',
                  from && FROM[from],
                )}
              >
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody ref={body}>
          <Gap height={above} />
          {(isLong ? indexes : rows.keys().toArray()).map((index) => {
            const row = rows[index]!;
            return (
              <tr
                key={keyOf(row)}
                {...(isLong && { ref: measure, 'data-index': index, 'aria-rowindex': index + 2 })}
                data-row={linkOf ? '' : undefined}
                className={classes(
                  'border-b border-line last:border-0',
                  linkOf && 'relative focus-within:bg-hover hover:bg-hover',
                )}
              >
                {columns.map(({ title, cell, isNumber, from }, place) => (
                  <td
                    key={title}
                    className={classes('px-3 py-2 align-middle', isNumber && 'text-right', from && FROM[from])}
                  >
                    {place === 0 && linkOf ? (
                      <Link
                        // biome-ignore lint/suspicious/noExplicitAny: addresses of all pages.
                        {...(linkOf(row) as any)}
                        className="font-medium after:absolute after:inset-0 outline-none focus-visible:after:outline-2 focus-visible:after:outline-accent focus-visible:after:-outline-offset-2"
                      >
                        {cell(row)}
                      </Link>
                    ) : (
                      cell(row)
                    )}
                  </td>
                ))}
              </tr>
            );
          })}
          <Gap height={below} />
        </tbody>
      </table>
    </div>
  );
}
