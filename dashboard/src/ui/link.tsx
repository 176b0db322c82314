import { Link as RouterLink } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { classes } from './classes.ts';

const LINK = 'text-accent underline-offset-2 hover:underline';

/** A typed link to a page of the dashboard. */
export const Link: typeof RouterLink = ((props: { className?: string }) => (
  // biome-ignore lint/suspicious/noExplicitAny: the router's type is kept by the cast around this.
  <RouterLink {...(props as any)} className={classes(LINK, props.className)} />
)) as never;

/** An external link that opens a new tab without a reference to this one. */
export function OutsideLink({ href, children }: { readonly href: string; readonly children: ReactNode }) {
  return (
    <a href={href} target="_blank" rel="noopener noreferrer" className={LINK}>
      {children}
    </a>
  );
}
