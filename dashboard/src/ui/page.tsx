import type { ReactNode } from 'react';
import { useEffect } from 'react';
import { classes } from './classes.ts';

/** Sets the title of the browser tab. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · Agent Platform`;
  }, [title]);
}

interface PageProps {
  readonly title: string;
  /** Replaces the visible heading; `title` is then only used for the tab. */
  readonly heading?: ReactNode;
  readonly description?: ReactNode;
  /** Buttons to the right of the title. */
  readonly actions?: ReactNode;
  /** {@link Tabs}. */
  readonly tabs?: ReactNode;
  /** Whether the page takes the full width. @default false */
  readonly isWide?: boolean;
  readonly children: ReactNode;
}

/** Layout of every page: its title (the only `h1`), actions and content. */
export function Page({ title, heading, description, actions, tabs, isWide = false, children }: PageProps) {
  useTitle(title);
  return (
    <div className={classes('mx-auto flex w-full flex-col gap-4 px-4 py-5 sm:px-6', !isWide && 'max-w-6xl')}>
      <header className="flex flex-col gap-3">
        <div className="flex flex-wrap items-start gap-x-4 gap-y-2">
          <div className="min-w-0 grow">
            <h1 className="text-xl font-semibold tracking-tight">{heading ?? title}</h1>
            {description && <div className="mt-0.5 text-soft">{description}</div>}
          </div>
          {actions && <div className="flex flex-wrap items-center gap-2">{actions}</div>}
        </div>
        {tabs}
      </header>
      {children}
    </div>
  );
}

/** A section of a page with a heading and an optional border. */
export function Section({
  title,
  description,
  actions,
  isFramed = true,
  children,
}: {
  readonly title: string;
  readonly description?: ReactNode;
  readonly actions?: ReactNode;
  readonly isFramed?: boolean;
  readonly children: ReactNode;
}) {
  return (
    <section className={classes('min-w-0', isFramed && 'rounded-lg border border-line bg-raised')}>
      <div
        className={classes('flex flex-wrap items-center gap-2', isFramed ? 'border-b border-line px-4 py-2.5' : 'pb-2')}
      >
        <div className="min-w-0 grow">
          <h2 className="text-base font-semibold">{title}</h2>
          {description && <div className="text-soft">{description}</div>}
        </div>
        {actions}
      </div>
      <div className={isFramed ? 'p-4' : undefined}>{children}</div>
    </section>
  );
}

/** Labels above their values in a responsive row. */
export function FactsRow({ facts }: { readonly facts: readonly (readonly [name: string, value: ReactNode])[] }) {
  return (
    <dl className="flex flex-wrap gap-x-8 gap-y-2">
      {facts.map(([name, value]) => (
        <div key={name} className="flex min-w-0 flex-col gap-0.5">
          <dt className="text-xs text-soft">{name}</dt>
          <dd className="flex min-h-5 min-w-0 items-center">{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Labels and values as a list, with two columns if there is space. */
export function Facts({ facts }: { readonly facts: readonly (readonly [name: string, value: ReactNode])[] }) {
  return (
    <dl className="grid grid-cols-1 gap-x-6 gap-y-1.5 sm:grid-cols-[max-content_1fr]">
      {facts.map(([name, value]) => (
        <div key={name} className="contents">
          <dt className="text-soft max-sm:mt-1">{name}</dt>
          <dd className="min-w-0">{value}</dd>
        </div>
      ))}
    </dl>
  );
}
