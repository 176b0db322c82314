import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { classes } from './classes.ts';

/** A tab is a URL: a separate page (`to`, `params`) or a search parameter (`search`). */
export interface Tab {
  readonly label: ReactNode;
  readonly to?: string;
  readonly params?: Record<string, string>;
  readonly search?: Record<string, string | undefined>;
  readonly isCurrent: boolean;
}

/** Tabs as links, so that the back button works and a URL identifies the tab. */
export function Tabs({ label, tabs }: { readonly label: string; readonly tabs: readonly Tab[] }) {
  return (
    <nav aria-label={label} className="-mb-px flex gap-1 overflow-x-auto border-b border-line">
      {tabs.map(({ label: text, to = '.', params, search, isCurrent }, index) => (
        <Link
          // biome-ignore lint/suspicious/noArrayIndexKey: tabs do not move.
          key={index}
          // biome-ignore lint/suspicious/noExplicitAny: addresses of all pages.
          {...({ to, params, search } as any)}
          aria-current={isCurrent ? 'page' : undefined}
          className={classes(
            '-mb-px shrink-0 border-b-2 px-2.5 py-1.5 font-medium whitespace-nowrap outline-offset-[-2px]',
            isCurrent ? 'border-accent text-text' : 'border-transparent text-soft hover:text-text',
          )}
        >
          {text}
        </Link>
      ))}
    </nav>
  );
}
