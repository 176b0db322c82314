/**
 * Returns a page of the documentation for a platform whose public path is `root`, with a trailing slash. Links of the
 * built site begin with `/docs`.
 */
export const docsLinksAt = (html: string, root: string): string =>
  root === '/' ? html : html.replace(/(?<==")\/docs(?=[/"])/g, `${root}docs`);
