import { PAGE_GROUPS, pagesIn, sourceOf, titled } from '../../../local/docs/pages.ts';
import { DOCS } from './docs-folder.ts';

const pages = pagesIn(DOCS);
const FOLDERS: Readonly<Record<string, string>> = {
  'tutorials/': 'Tutorials',
  'migrate/': 'Move here',
  'interface/': 'Rules of the interface',
  'errors/': 'Error codes',
  'decisions/': 'Decisions',
};
const FOLDED = new Set(['Operate', 'Reference', 'Contribute']);

/** Navigation of the site: the groups of `local/docs/pages.ts`, and below Reference the API. */
export const sidebar = PAGE_GROUPS.map(({ label, pages: names }) => ({
  label,
  collapsed: FOLDED.has(label),
  items: [
    ...names.flatMap((name) => {
      const found = pages.filter(({ file }) => (name.endsWith('/') ? file.startsWith(name) : file === `${name}.md`));
      const links = found.map(({ slug, file }) => ({
        label: titled(sourceOf(DOCS, file), file).title,
        link: `/${slug}`,
      }));
      if (!name.endsWith('/') || links.length === 0) return links;
      return [{ label: FOLDERS[name] ?? name, collapsed: name !== 'tutorials/', items: links }];
    }),
    ...(label === 'Reference' ? [{ label: 'API reference', link: '/api' }] : []),
  ],
})).filter(({ items }) => items.length > 0);
