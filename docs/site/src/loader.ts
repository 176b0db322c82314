import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Loader } from 'astro/loaders';
import { withLinks, withTabs } from '../../../local/docs/markdown.ts';
import { sourceOf, summaryOf, titled } from '../../../local/docs/pages.ts';
import { DocsTexts } from '../../../local/docs/texts.ts';
import { BASE, DOCS } from './docs-folder.ts';

/** Loads the pages of `docs/`: the first heading is the title, and links between files become links between pages. */
export const pagesLoader = (): Loader => ({
  name: 'pages',
  async load({ store, parseData, renderMarkdown, generateDigest }) {
    store.clear();
    const texts = new DocsTexts(DOCS, BASE);
    for (const { slug, file } of texts.pages) {
      const { title, body } = titled(sourceOf(DOCS, file), file);
      const text = withTabs(withLinks(body, { file, isPage: texts.isPage, base: BASE, extension: '' }));
      const id = slug === '' ? 'index' : slug;
      const raw = {
        title,
        description: summaryOf(body),
        editUrl: false,
        ...(slug === '' && { tableOfContents: false }),
      };
      const data = await parseData({ id, data: raw });
      const rendered = await renderMarkdown(text, { fileURL: pathToFileURL(join(DOCS, file)) });
      store.set({ id, data, body: text, rendered, digest: generateDigest(text), filePath: `../${file}` });
    }
  },
});
