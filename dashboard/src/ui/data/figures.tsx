import type { ReactNode } from 'react';

/** A key figure. */
export interface Figure {
  readonly name: string;
  readonly value: ReactNode;
  /** Note below the value. */
  readonly note?: ReactNode;
}

/** Key figures in a responsive row of boxes. */
export function Figures({ label, figures }: { readonly label: string; readonly figures: readonly Figure[] }) {
  return (
    <dl
      aria-label={label}
      className="grid grid-cols-[repeat(auto-fit,minmax(8.5rem,1fr))] gap-px overflow-hidden rounded-lg border border-line bg-line"
    >
      {figures.map(({ name, value, note }) => (
        <div key={name} className="flex flex-col gap-0.5 bg-raised px-3 py-2.5">
          <dt className="text-xs text-soft">{name}</dt>
          <dd className="text-lg font-semibold">{value}</dd>
          {note && <dd className="text-xs text-soft">{note}</dd>}
        </div>
      ))}
    </dl>
  );
}
