import starlight from '@astrojs/starlight';
import { defineConfig } from 'astro/config';
import starlightOpenApi from 'starlight-openapi';
import { finish } from './src/finish.ts';
import { sidebar } from './src/sidebar.ts';

export default defineConfig({
  base: '/docs',
  outDir: '../../dist/docs-site',
  cacheDir: './node_modules/.astro',
  trailingSlash: 'never',
  build: { format: 'file', inlineStylesheets: 'never' },
  // No page loads code from another site, and the policy of the platform allows no inline scripts.
  devToolbar: { enabled: false },
  integrations: [
    starlight({
      title: 'Agent Platform',
      // Used for pages without a description of their own, such as those of the API reference.
      description:
        'Host agents: run prompts, programs and LLM tool loops by API, on a schedule, on a webhook or as services.',
      favicon: '/favicon.svg',
      sidebar,
      customCss: ['./src/site.css'],
      components: { PageTitle: './src/components/PageTitle.astro' },
      tableOfContents: { minHeadingLevel: 2, maxHeadingLevel: 3 },
      pagination: true,
      disable404Route: false,
      plugins: [starlightOpenApi([{ base: 'api', schema: '../openapi.json', sidebar: { label: 'API reference' } }])],
    }),
    finish(),
  ],
});
