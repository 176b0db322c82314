import { Link as RouterLink } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { classes } from './classes.ts';

const LINK = 'text-accent underline-offset-2 hover:underline';

/** A link to a page of the dashboard, typed by the router. */
export const Link: typeof RouterLink = ((props: { className?: string }) => (
  // biome-ignore lint/suspicious/noExplicitAny: the router's type is kept by the cast around this.
  <RouterLink {...(props as any)} className={classes(LINK, props.className)} />
)) as never;

/** A link that leaves the dashboard: it opens a tab that knows nothing of this one. */
export function OutsideLink({ href, children }: { readonly href: string; readonly children: ReactNode }) {
  return (
    <a href={href} target="_blank" rel="noopener noreferrer" className={LINK}>
      {children}
    </a>
  );
}
