import { filesWith, preferFiles, preferUnimported } from '../entries.ts';
import type { Framework } from '../framework.ts';
import { webService } from '../web-service.ts';

export const streamlit: Framework = {
  name: 'streamlit',
  title: 'Streamlit',
  language: 'python',
  packages: ['streamlit'],
  example: 'a file must import streamlit and show something, such as `st.title("Hello")`.',
  entriesIn(project) {
    const pages = filesWith(project, /\.py$/, /^[ \t]{0,20}(?:import|from) streamlit\b/m);
    const own = pages.filter(({ file }) => !/(?:^|\/)pages\//.test(file));
    const usual = preferFiles(own, 'streamlit_app.py', 'app.py', 'main.py', 'Home.py', 'home.py');
    return preferUnimported(project, usual);
  },
  adapt: (project, { file }) =>
    webService(project, {
      language: 'python',
      command: `python3 -m streamlit run ${file} --server.port $PORT --server.address 0.0.0.0 --server.headless true --browser.gatherUsageStats false`,
      path: '/_stcore/health',
    }),
};
