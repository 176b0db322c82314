import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { classes } from './classes.ts';

export interface Column<Row> {
  readonly title: string;
  readonly cell: (row: Row) => ReactNode;
  /** Right-aligned, for numbers. @default false */
  readonly isNumber?: boolean;
  /** Left out where the window is narrower. @default - always there */
  readonly from?: 'sm' | 'md' | 'lg';
}

const FROM = { sm: 'max-sm:hidden', md: 'max-md:hidden', lg: 'max-lg:hidden' };

/**
 * A table of up to some hundred rows. With `linkOf` each row is a link: the first cell has it, a press anywhere in the row
 * follows it, `j` and `k` go from row to row (the frame of pages does that, by `data-row`).
 */
export function Table<Row>({
  label,
  columns,
  rows,
  keyOf,
  linkOf,
  empty,
}: {
  /** What the table lists, read aloud. */
  readonly label: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string;
  /** Where a row leads: the options of a link of the router. */
  readonly linkOf?: (row: Row) => { readonly to: string; readonly params?: object; readonly search?: object };
  /** Shown in place of a table without rows. */
  readonly empty?: ReactNode;
}) {
  if (rows.length === 0 && empty !== undefined) return <>{empty}</>;
  return (
    <div className="overflow-x-auto rounded-lg border border-line bg-raised">
      <table className="w-full border-collapse text-left">
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
        <tbody>
          {rows.map((row) => (
            <tr
              key={keyOf(row)}
              data-row={linkOf ? '' : undefined}
              className={classes(
                'border-b border-line last:border-0',
                linkOf && 'relative focus-within:bg-hover hover:bg-hover',
              )}
            >
              {columns.map(({ title, cell, isNumber, from }, index) => (
                <td
                  key={title}
                  className={classes('px-3 py-2 align-middle', isNumber && 'text-right', from && FROM[from])}
                >
                  {index === 0 && linkOf ? (
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
          ))}
        </tbody>
      </table>
    </div>
  );
}
