import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import optimizeLocales from '@react-aria/optimize-locales-plugin';
import tailwind from '@tailwindcss/vite';
import react from '@vitejs/plugin-react';
import { defineConfig, type Plugin } from 'vite';
import { packedFiles } from '../cli/packed-files.ts';
import { copiedManifest, exampleFiles, type FilesByPath, galleryOf } from '../client/gallery.ts';
import { routes } from '../core/api/routes.ts';

/** Where `npm run dev --workspace dashboard` finds a platform. */
const PLATFORM = process.env.PLATFORM_API_URL ?? 'http://127.0.0.1:4280';
const OPERATIONS = 'virtual:operations';
const GALLERY = 'virtual:gallery';
const GALLERY_FILES = 'virtual:gallery-files';

/** `operationId -> [method, path]` of the route table, without the shapes: those are types in the browser. */
const operations = (): Plugin => ({
  name: 'operations',
  resolveId: (id) => (id === OPERATIONS ? `\0${OPERATIONS}` : undefined),
  load(id) {
    if (id !== `\0${OPERATIONS}`) return undefined;
    const rows = routes.map(({ operationId, method, path }) => [operationId, [method, path]]);
    return `export default ${JSON.stringify(Object.fromEntries(rows))};`;
  },
});

/** The examples of the repository: their list, and separately their files, which only a copy needs. */
const gallery = (): Plugin => ({
  name: 'gallery',
  resolveId: (id) => ([GALLERY, GALLERY_FILES].includes(id) ? `\0${id}` : undefined),
  load(id) {
    if (id !== `\0${GALLERY}` && id !== `\0${GALLERY_FILES}`) return undefined;
    const files = packedFiles();
    const entries = galleryOf(files);
    if (id === `\0${GALLERY}`) return `export default ${JSON.stringify(entries)};`;
    const byName = Object.fromEntries(entries.map(({ name }) => [name, copyOf(exampleFiles(files, name))]));
    return `export default ${JSON.stringify(byName)};`;
  },
});

const copyOf = (files: FilesByPath): FilesByPath => {
  const manifest = files['agent.json'];
  if (manifest === undefined) return files;
  return { ...files, 'agent.json': JSON.stringify(copiedManifest(manifest as string)) };
};

/** Writes each text file also as `.br` and `.gz`, so that serving costs no processor time. */
const compressed = (): Plugin => ({
  name: 'compressed',
  apply: 'build',
  async writeBundle() {
    const folder = join(import.meta.dirname, 'dist');
    const files = await readdir(folder, { recursive: true });
    await Promise.all(
      files
        .filter((file) => /\.(js|css|svg)$/.test(file))
        .map(async (file) => {
          const path = join(folder, file);
          const bytes = await readFile(path);
          const params = { [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length };
          await writeFile(`${path}.br`, await promisify(brotliCompress)(bytes, { params }));
          await writeFile(`${path}.gz`, await promisify(gzip)(bytes, { level: 9 }));
        }),
    );
  },
});

/** Large parts that a page loads when it shows them, see `lazy`. */
const ON_DEMAND = /\/src\/ui\/(data\/chart|schema-form|text\/editor)\./;

/**
 * One chunk for the frame, one for the parts that pages share, and one per folder of `src/pages`. Automatic chunks
 * would be one per set of pages that share a module: dozens of requests for a page.
 */
const CHUNKS = [
  { name: 'frame', tags: ['$initial' as const], priority: 3 },
  {
    name: 'parts',
    test: (id: string) =>
      /\/(src\/(ui|live|api|publishing|approvals)|core|node_modules)\//.test(id) && !ON_DEMAND.test(id),
    minShareCount: 2,
    priority: 2,
  },
  // Two pages show it, and no other.
  { name: 'conversation', test: /\/src\/chat\/(?!markdown)/, priority: 1 },
  { name: (id: string) => /\/src\/pages\/([^/]+)\//.exec(id)?.[1] ?? null, priority: 1 },
];

export default defineConfig(({ command }) => {
  // Also where a test runner starts the build.
  if (command === 'build') process.env.NODE_ENV = 'production';
  return {
    root: import.meta.dirname,
    // Addresses are relative to the <base> of index.html, which the server sets: one build serves every path.
    base: './',
    plugins: [
      { ...optimizeLocales.vite({ locales: ['en-US'] }), enforce: 'pre' },
      react(),
      tailwind(),
      operations(),
      gallery(),
      compressed(),
    ],
    resolve: { alias: { '#core': join(import.meta.dirname, '../core') } },
    build: {
      target: ['chrome123', 'firefox128', 'safari17.5'],
      modulePreload: { polyfill: false },
      // Inlined files would be `data:` addresses, which the policy allows for images only.
      assetsInlineLimit: 0,
      manifest: true,
      reportCompressedSize: false,
      chunkSizeWarningLimit: 1000,
      rolldownOptions: { output: { codeSplitting: { groups: CHUNKS } } },
    },
    server: {
      proxy: {
        // All but the pages' own files.
        '^/(?!dashboard/|@|src/|node_modules/|$).*': { target: PLATFORM, changeOrigin: true },
      },
    },
  };
});
