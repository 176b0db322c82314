import { Bar, CartesianGrid, ComposedChart, Line, ResponsiveContainer, Tooltip, XAxis, YAxis } from 'recharts';

export interface Series<Row> {
  readonly key: keyof Row & string;
  readonly label: string;
  /** A colour variable of `theme.css`, such as `--good`. */
  readonly colour: `--${string}`;
  /** Bars are stacked; lines have gaps at null values. */
  readonly kind: 'bar' | 'line';
}

/**
 * A chart over days, hidden from assistive technology: the table below it has the same values and opens by keyboard.
 * Load it with `lazy`, because it needs a large library.
 */
export function Chart<Row extends object>({
  label,
  rows,
  at,
  series,
  format,
  hasParts = false,
}: {
  readonly label: string;
  readonly rows: readonly Row[];
  /** Member that holds the day. */
  readonly at: keyof Row & string;
  readonly series: readonly Series<Row>[];
  readonly format: (value: number) => string;
  /** Whether the axis may show fractions. @default false */
  readonly hasParts?: boolean;
}) {
  const axis = { stroke: 'var(--edge)', tick: { fill: 'var(--soft)', fontSize: 12 }, tickLine: false } as const;
  return (
    <figure className="flex min-w-0 flex-col gap-2">
      <figcaption className="flex flex-wrap gap-x-4 gap-y-1 text-xs text-soft">
        {series.map(({ key, label, colour }) => (
          <span key={key} className="flex items-center gap-1.5">
            <span aria-hidden className="size-2.5 rounded-xs" style={{ background: `var(${colour})` }} />
            {label}
          </span>
        ))}
      </figcaption>
      <div aria-hidden className="h-56 overflow-hidden">
        <ResponsiveContainer>
          <ComposedChart
            data={rows as unknown as Record<string, unknown>[]}
            accessibilityLayer={false}
            margin={{ top: 4, right: 4, bottom: 0, left: 0 }}
          >
            <CartesianGrid stroke="var(--line)" vertical={false} />
            <XAxis {...axis} dataKey={at as string} tickFormatter={shortDay} minTickGap={24} />
            <YAxis {...axis} width="auto" axisLine={false} allowDecimals={hasParts} tickFormatter={format} />
            <Tooltip
              isAnimationActive={false}
              cursor={{ fill: 'var(--hover)', stroke: 'var(--edge)' }}
              formatter={(value) => (typeof value === 'number' ? format(value) : '–')}
              contentStyle={{ background: 'var(--raised)', border: '1px solid var(--line)', borderRadius: 8 }}
              labelStyle={{ color: 'var(--text)' }}
            />
            {series.map(({ key, label, colour, kind }) => {
              const shown = { dataKey: key as string, name: label, isAnimationActive: false } as const;
              return kind === 'bar' ? (
                <Bar key={key} {...shown} stackId="all" fill={`var(${colour})`} maxBarSize={28} />
              ) : (
                <Line key={key} {...shown} stroke={`var(${colour})`} strokeWidth={2} dot={{ r: 2 }} />
              );
            })}
          </ComposedChart>
        </ResponsiveContainer>
      </div>
      <details>
        <summary className="w-fit text-xs text-soft">Show as a table</summary>
        <div className="mt-2 max-h-72 overflow-auto">
          <table className="w-full text-left">
            <caption className="sr-only">{label}</caption>
            <thead className="text-xs text-soft">
              <tr>
                <th scope="col">Day</th>
                {series.map(({ key, label }) => (
                  <th key={key} scope="col" className="text-right">
                    {label}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => (
                <tr key={String(row[at])}>
                  <td>{String(row[at])}</td>
                  {series.map(({ key }) => (
                    <td key={key} className="text-right">
                      {typeof row[key] === 'number' ? format(row[key]) : '–'}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </details>
    </figure>
  );
}

const DAY = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' });
const shortDay = (day: unknown): string => DAY.format(new Date(String(day)));
