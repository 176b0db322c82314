import { Link } from '@tanstack/react-router';
import { classes } from '../classes.ts';

/** Maximum number of bars on narrow screens: each is a target of at least 24 pixels (WCAG 2.5.8). */
const MAX_NARROW = 12;

interface Bar {
  readonly key: string;
  /** Complete description, such as "14:00: 5 calls, 1 failed". */
  readonly label: string;
  readonly value: number;
  /** Part of `value` that failed. @default 0 */
  readonly bad?: number;
  /** Search parameters of the runs list behind the bar. */
  readonly search: Readonly<Record<string, string>>;
}

/** A small bar chart in which each bar is a link to its runs. Screen readers read the labels as a list. */
export function Bars({
  label,
  bars,
  workspace,
  first,
  last,
  top,
}: {
  readonly label: string;
  readonly bars: readonly Bar[];
  readonly workspace: string;
  /** Labels of both ends of the axis, and of its top. */
  readonly first: string;
  readonly last: string;
  readonly top: string;
}) {
  const max = Math.max(...bars.map(({ value }) => value), Number.MIN_VALUE);
  return (
    <div>
      <p aria-hidden className="text-xs text-soft">
        {top}
      </p>
      <ul aria-label={label} className="flex h-28 items-stretch gap-px border-b border-edge">
        {bars.map(({ key, label: text, value, bad = 0, search }, index) => (
          <li
            key={key}
            className={classes('flex min-w-0 grow basis-0', bars.length - index > MAX_NARROW && 'max-lg:hidden')}
          >
            <Link
              to="/$workspace/runs"
              params={{ workspace }}
              search={search as object}
              aria-label={text}
              title={text}
              className="flex grow flex-col justify-end hover:bg-hover"
            >
              <span className="block bg-bad" style={{ height: `${(100 * bad) / max}%` }} />
              <span className="block bg-accent" style={{ height: `${(100 * (value - bad)) / max}%` }} />
            </Link>
          </li>
        ))}
      </ul>
      <p aria-hidden className="flex justify-between text-xs text-soft">
        <span>{first}</span>
        <span>{last}</span>
      </p>
    </div>
  );
}
